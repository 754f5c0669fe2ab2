//go:build mutant_folder_unsynced

package mutant

// killed by: ./blobstore TestLocalSyncs
const active = FolderUnsynced
