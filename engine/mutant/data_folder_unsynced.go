//go:build mutant_data_folder_unsynced

package mutant

// killed by: ./integration/forgetful TestDataFileSurvives
const active = DataFolderUnsynced
