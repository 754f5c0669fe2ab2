package catalog

// Rows as typed values, for code that reads columns by name. A pointer may be
// NULL; anything else may not, and Decode refuses it.

// MetadataRow is one option of the catalog.
type MetadataRow struct {
	Key     string  `lake:"key"`
	Value   string  `lake:"value"`
	Scope   *string `lake:"scope"`
	ScopeID *int64  `lake:"scope_id"`
}

// SnapshotRow is one snapshot.
type SnapshotRow struct {
	SnapshotID    int64  `lake:"snapshot_id"`
	SnapshotTime  string `lake:"snapshot_time"`
	SchemaVersion int64  `lake:"schema_version"`
	NextCatalogID int64  `lake:"next_catalog_id"`
	NextFileID    int64  `lake:"next_file_id"`
}

// SnapshotChangesRow says what a snapshot did, and who made it.
type SnapshotChangesRow struct {
	SnapshotID      int64   `lake:"snapshot_id"`
	ChangesMade     *string `lake:"changes_made"`
	Author          *string `lake:"author"`
	CommitMessage   *string `lake:"commit_message"`
	CommitExtraInfo *string `lake:"commit_extra_info"`
}

// SchemaRow is one schema.
type SchemaRow struct {
	SchemaID       int64   `lake:"schema_id"`
	SchemaUUID     string  `lake:"schema_uuid"`
	BeginSnapshot  int64   `lake:"begin_snapshot"`
	EndSnapshot    *int64  `lake:"end_snapshot"`
	SchemaName     string  `lake:"schema_name"`
	Path           *string `lake:"path"`
	PathIsRelative bool    `lake:"path_is_relative"`
}

// TableRow is one version of a table.
type TableRow struct {
	TableID        int64   `lake:"table_id"`
	TableUUID      string  `lake:"table_uuid"`
	BeginSnapshot  int64   `lake:"begin_snapshot"`
	EndSnapshot    *int64  `lake:"end_snapshot"`
	SchemaID       int64   `lake:"schema_id"`
	TableName      string  `lake:"table_name"`
	Path           *string `lake:"path"`
	PathIsRelative bool    `lake:"path_is_relative"`
}

// ColumnRow is one version of a column.
type ColumnRow struct {
	ColumnID            int64   `lake:"column_id"`
	BeginSnapshot       int64   `lake:"begin_snapshot"`
	EndSnapshot         *int64  `lake:"end_snapshot"`
	TableID             int64   `lake:"table_id"`
	ColumnOrder         int64   `lake:"column_order"`
	ColumnName          string  `lake:"column_name"`
	ColumnType          string  `lake:"column_type"`
	InitialDefault      *string `lake:"initial_default"`
	DefaultValue        *string `lake:"default_value"`
	NullsAllowed        bool    `lake:"nulls_allowed"`
	ParentColumn        *int64  `lake:"parent_column"`
	DefaultValueType    *string `lake:"default_value_type"`
	DefaultValueDialect *string `lake:"default_value_dialect"`
}

// ViewRow is one version of a view.
type ViewRow struct {
	ViewID        int64   `lake:"view_id"`
	ViewUUID      string  `lake:"view_uuid"`
	BeginSnapshot int64   `lake:"begin_snapshot"`
	EndSnapshot   *int64  `lake:"end_snapshot"`
	SchemaID      int64   `lake:"schema_id"`
	ViewName      string  `lake:"view_name"`
	Dialect       *string `lake:"dialect"`
	SQL           string  `lake:"sql"`
	ColumnAliases *string `lake:"column_aliases"`
}

// MacroRow is one version of a macro.
type MacroRow struct {
	SchemaID      int64  `lake:"schema_id"`
	MacroID       int64  `lake:"macro_id"`
	MacroName     string `lake:"macro_name"`
	BeginSnapshot int64  `lake:"begin_snapshot"`
	EndSnapshot   *int64 `lake:"end_snapshot"`
}

// MacroImplRow is one body of a macro.
type MacroImplRow struct {
	MacroID int64   `lake:"macro_id"`
	ImplID  int64   `lake:"impl_id"`
	Dialect *string `lake:"dialect"`
	SQL     string  `lake:"sql"`
	Type    *string `lake:"type"`
}

// MacroParameterRow is one parameter of a macro's body.
type MacroParameterRow struct {
	MacroID          int64   `lake:"macro_id"`
	ImplID           int64   `lake:"impl_id"`
	ColumnID         int64   `lake:"column_id"`
	ParameterName    *string `lake:"parameter_name"`
	ParameterType    *string `lake:"parameter_type"`
	DefaultValue     *string `lake:"default_value"`
	DefaultValueType *string `lake:"default_value_type"`
}

// TagRow is one version of a tag (a comment) of a schema, table or view.
type TagRow struct {
	ObjectID      int64   `lake:"object_id"`
	BeginSnapshot int64   `lake:"begin_snapshot"`
	EndSnapshot   *int64  `lake:"end_snapshot"`
	Key           string  `lake:"key"`
	Value         *string `lake:"value"`
}

// ColumnTagRow is one version of a tag of a column.
type ColumnTagRow struct {
	TableID       int64   `lake:"table_id"`
	ColumnID      int64   `lake:"column_id"`
	BeginSnapshot int64   `lake:"begin_snapshot"`
	EndSnapshot   *int64  `lake:"end_snapshot"`
	Key           string  `lake:"key"`
	Value         *string `lake:"value"`
}

// SchemaVersionRow says which schema version a snapshot gave a table.
type SchemaVersionRow struct {
	BeginSnapshot int64  `lake:"begin_snapshot"`
	SchemaVersion int64  `lake:"schema_version"`
	TableID       *int64 `lake:"table_id"`
}
