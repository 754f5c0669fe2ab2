//go:build mutant_taken_unsynced

package mutant

// killed by: ./integration/forgetful TestTakenFileSurvives
const active = TakenUnsynced
