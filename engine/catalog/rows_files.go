package catalog

// DataFileRow is one data file of a table.
type DataFileRow struct {
	DataFileID     int64   `lake:"data_file_id"`
	TableID        int64   `lake:"table_id"`
	BeginSnapshot  int64   `lake:"begin_snapshot"`
	EndSnapshot    *int64  `lake:"end_snapshot"`
	FileOrder      *int64  `lake:"file_order"`
	Path           string  `lake:"path"`
	PathIsRelative bool    `lake:"path_is_relative"`
	FileFormat     string  `lake:"file_format"`
	RecordCount    int64   `lake:"record_count"`
	FileSizeBytes  int64   `lake:"file_size_bytes"`
	FooterSize     *int64  `lake:"footer_size"`
	RowIDStart     *int64  `lake:"row_id_start"`
	PartitionID    *int64  `lake:"partition_id"`
	EncryptionKey  *string `lake:"encryption_key"`
	MappingID      *int64  `lake:"mapping_id"`
	PartialMax     *int64  `lake:"partial_max"`
}

// DeleteFileRow is one file of deleted positions of a data file.
type DeleteFileRow struct {
	DeleteFileID   int64   `lake:"delete_file_id"`
	TableID        int64   `lake:"table_id"`
	BeginSnapshot  int64   `lake:"begin_snapshot"`
	EndSnapshot    *int64  `lake:"end_snapshot"`
	DataFileID     int64   `lake:"data_file_id"`
	Path           string  `lake:"path"`
	PathIsRelative bool    `lake:"path_is_relative"`
	Format         string  `lake:"format"`
	DeleteCount    int64   `lake:"delete_count"`
	FileSizeBytes  int64   `lake:"file_size_bytes"`
	FooterSize     *int64  `lake:"footer_size"`
	EncryptionKey  *string `lake:"encryption_key"`
	PartialMax     *int64  `lake:"partial_max"`
}

// FileScheduledForDeletionRow is a file no snapshot needs; Path is relative to the data path.
type FileScheduledForDeletionRow struct {
	DataFileID     int64   `lake:"data_file_id"`
	Path           string  `lake:"path"`
	PathIsRelative bool    `lake:"path_is_relative"`
	ScheduleStart  *string `lake:"schedule_start"`
}

// InlinedDataTableRow names a table of inlined rows.
type InlinedDataTableRow struct {
	TableID       int64  `lake:"table_id"`
	TableName     string `lake:"table_name"`
	SchemaVersion int64  `lake:"schema_version"`
}

// ColumnMappingRow is a mapping from names in files to columns.
type ColumnMappingRow struct {
	MappingID int64   `lake:"mapping_id"`
	TableID   int64   `lake:"table_id"`
	Type      *string `lake:"type"`
}

// NameMappingRow is one name of a mapping; ColumnID and ParentColumn count inside the mapping.
type NameMappingRow struct {
	MappingID     int64  `lake:"mapping_id"`
	ColumnID      int64  `lake:"column_id"`
	SourceName    string `lake:"source_name"`
	TargetFieldID int64  `lake:"target_field_id"`
	ParentColumn  *int64 `lake:"parent_column"`
	IsPartition   bool   `lake:"is_partition"`
}

// TableStatsRow is what is known of a table's rows.
type TableStatsRow struct {
	TableID       int64 `lake:"table_id"`
	RecordCount   int64 `lake:"record_count"`
	NextRowID     int64 `lake:"next_row_id"`
	FileSizeBytes int64 `lake:"file_size_bytes"`
}

// TableColumnStatsRow is what is known of a column over all files.
type TableColumnStatsRow struct {
	TableID      int64   `lake:"table_id"`
	ColumnID     int64   `lake:"column_id"`
	ContainsNull *bool   `lake:"contains_null"`
	ContainsNan  *bool   `lake:"contains_nan"`
	MinValue     *string `lake:"min_value"`
	MaxValue     *string `lake:"max_value"`
	ExtraStats   *string `lake:"extra_stats"`
}

// FileColumnStatsRow is what is known of a column in one file.
type FileColumnStatsRow struct {
	DataFileID      int64   `lake:"data_file_id"`
	TableID         int64   `lake:"table_id"`
	ColumnID        int64   `lake:"column_id"`
	ColumnSizeBytes *int64  `lake:"column_size_bytes"`
	ValueCount      *int64  `lake:"value_count"`
	NullCount       *int64  `lake:"null_count"`
	MinValue        *string `lake:"min_value"`
	MaxValue        *string `lake:"max_value"`
	ContainsNan     *bool   `lake:"contains_nan"`
	ExtraStats      *string `lake:"extra_stats"`
}

// FileVariantStatsRow is what is known of a path inside a VARIANT column in one file.
type FileVariantStatsRow struct {
	DataFileID      int64   `lake:"data_file_id"`
	TableID         int64   `lake:"table_id"`
	ColumnID        int64   `lake:"column_id"`
	VariantPath     string  `lake:"variant_path"`
	ShreddedType    *string `lake:"shredded_type"`
	ColumnSizeBytes *int64  `lake:"column_size_bytes"`
	ValueCount      *int64  `lake:"value_count"`
	NullCount       *int64  `lake:"null_count"`
	MinValue        *string `lake:"min_value"`
	MaxValue        *string `lake:"max_value"`
	ContainsNan     *bool   `lake:"contains_nan"`
	ExtraStats      *string `lake:"extra_stats"`
}

// PartitionInfoRow is one partition spec of a table.
type PartitionInfoRow struct {
	PartitionID   int64  `lake:"partition_id"`
	TableID       int64  `lake:"table_id"`
	BeginSnapshot int64  `lake:"begin_snapshot"`
	EndSnapshot   *int64 `lake:"end_snapshot"`
}

// PartitionColumnRow is one key of a partition spec.
type PartitionColumnRow struct {
	PartitionID       int64   `lake:"partition_id"`
	TableID           int64   `lake:"table_id"`
	PartitionKeyIndex int64   `lake:"partition_key_index"`
	ColumnID          int64   `lake:"column_id"`
	Transform         *string `lake:"transform"`
}

// FilePartitionValueRow is the value of a partition key in one file; NULL is a NULL.
type FilePartitionValueRow struct {
	DataFileID        int64   `lake:"data_file_id"`
	TableID           int64   `lake:"table_id"`
	PartitionKeyIndex int64   `lake:"partition_key_index"`
	PartitionValue    *string `lake:"partition_value"`
}

// SortInfoRow is one sort spec of a table.
type SortInfoRow struct {
	SortID        int64  `lake:"sort_id"`
	TableID       int64  `lake:"table_id"`
	BeginSnapshot int64  `lake:"begin_snapshot"`
	EndSnapshot   *int64 `lake:"end_snapshot"`
}

// SortExpressionRow is one key of a sort spec.
type SortExpressionRow struct {
	SortID        int64   `lake:"sort_id"`
	TableID       int64   `lake:"table_id"`
	SortKeyIndex  int64   `lake:"sort_key_index"`
	Expression    *string `lake:"expression"`
	Dialect       *string `lake:"dialect"`
	SortDirection *string `lake:"sort_direction"`
	NullOrder     *string `lake:"null_order"`
}
