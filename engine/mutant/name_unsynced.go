//go:build mutant_name_unsynced

package mutant

// killed by: ./integration/forgetful TestGenerationSurvives
const active = NameUnsynced
