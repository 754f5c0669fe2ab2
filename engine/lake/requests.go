package lake

// Requests that need no open transaction; Client has one method for each.
// Every path is absolute. The worker reads and writes nothing else.

// CreateRequest makes a new, empty working catalog in WAL mode with
// data_inlining_row_limit 0 and the table tarn_file.
type CreateRequest struct {
	Path     string `json:"path"`
	DataPath string `json:"data_path"`
	SchemaID string `json:"schema_uuid"` // UUID of schema main
	Now      string `json:"now"`         // catalog.TimeLayout
}

// ThawRequest makes a new working catalog from a frozen one.
type ThawRequest struct {
	Frozen   string  `json:"frozen"`
	Path     string  `json:"path"`
	DataPath string  `json:"data_path"`
	Names    []Named `json:"names"` // becomes tarn_file
}

// SniffRequest asks for the columns and rows of a dropped file.
type SniffRequest struct {
	Path   string `json:"path"`
	Format Format `json:"format"`
}

// Sniffed answers SniffRequest.
type Sniffed struct {
	Columns []Column `json:"columns"`
	Rows    int64    `json:"rows"`
}

// ConvertRequest writes the rows of Src as a Parquet file with exactly
// Columns, in their order, by name (case-insensitive), with their field ids;
// a column the source lacks becomes NULL when it is listed in Missing, else the
// request fails. For CSV every value must fit: the first that does not is a *ValueError.
// Dst must not exist; it is fsynced.
type ConvertRequest struct {
	Src     string   `json:"src"`
	Format  Format   `json:"format"`
	Dst     string   `json:"dst"`
	Columns []Column `json:"columns"`
	Missing []string `json:"missing"`
}

// Converted answers ConvertRequest and RewriteRequest.
type Converted struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
}

// RewriteRequest writes the rows that data file DataFileID contributes to its
// table at the version whose frozen catalog is given, with the table's columns
// of that version: older or renamed columns, defaults, delete files, values
// that live only in the path. DataDir is the folder that data_path stands for.
// ErrUnsupported when it cannot be done exactly. Dst must not exist.
type RewriteRequest struct {
	Frozen     string            `json:"frozen"`
	DataFileID int64             `json:"data_file_id"`
	Files      map[string]string `json:"files"` // path below data_path -> absolute local file, for the data file and its delete file
	Dst        string            `json:"dst"`
	Codec      string            `json:"codec"` // "" = that of the stored file
}

// RowsOf is one side of a comparison: some data files of one table with their delete files.
type RowsOf struct {
	Frozen  string            `json:"frozen"` // frozen catalog that describes them
	TableID int64             `json:"table_id"`
	FileIDs []int64           `json:"file_ids"`
	Files   map[string]string `json:"files"` // as in RewriteRequest
}

// SameRowsRequest asks whether both sides hold the same rows as multisets.
type SameRowsRequest struct {
	A, B RowsOf
}

// Compared answers SameRowsRequest.
type Compared struct {
	Same      bool  `json:"same"`
	BytesRead int64 `json:"bytes_read"` // by the worker for it, by the kernel's count: catalogs, footers, rows
}

// DiffRowsRequest asks which rows are more often in A than in B, or less. At
// most Limit are listed.
type DiffRowsRequest struct {
	A, B  RowsOf
	Limit int `json:"limit"`
}

// DiffRows answers DiffRowsRequest.
type DiffRows struct {
	OtherColumns bool      `json:"other_columns,omitempty"` // the sides cannot be compared
	Columns      []string  `json:"columns"`
	Rows         []DiffRow `json:"rows"`
	More         bool      `json:"more,omitempty"` // than Limit
}

// DiffRow is one row, its values as DuckDB writes them as text.
type DiffRow struct {
	Count  int64     `json:"count"` // how much more often it is in A; less than 0: in B
	Values []*string `json:"values"`
}

// ReadFrozenRequest yields every row of a frozen catalog, table by table, each
// in the catalog store's key order.
type ReadFrozenRequest struct {
	Path string `json:"path"`
}

// Tabular says which tables and views of a frozen catalog a query may use, and
// where their files are. Every other table of the catalog is known by name and
// columns only when List is set.
type Tabular struct {
	Frozen string            `json:"frozen"`
	Alias  string            `json:"alias"` // database name under which the tables are seen
	Tables []TableName       `json:"tables"`
	Views  []QueryView       `json:"views"`
	Files  map[string]string `json:"files"` // as in RewriteRequest, for all files of Tables
	List   bool              `json:"list"`
}

// TableName names a table.
type TableName struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
}

// QueryView is a view of the version.
type QueryView struct {
	TableName
	SQL string `json:"sql"`
}

// ParseRequest asks what SQL texts are.
type ParseRequest struct {
	SQL []string `json:"sql"`
}

// Parsed answers ParseRequest for one text. Only a single SELECT, or what
// DuckDB takes for one (FROM, VALUES, WITH, DESCRIBE, SHOW, SUMMARIZE), passes.
type Parsed struct {
	Refused string   `json:"refused,omitempty"` // why it is not to be run; "": it may be
	Tables  []string `json:"tables,omitempty"`  // last part of each table name in it; CTEs too
	List    bool     `json:"list,omitempty"`    // it asks for the list of tables
}

// RowFormat is how the rows of a query are written.
type RowFormat string

// The formats of a query's rows.
const (
	BoxRows  RowFormat = "box"  // a table drawn with lines
	CSVRows  RowFormat = "csv"  // header and rows, RFC 4180, LF; NULL is empty, the empty text ""
	JSONRows RowFormat = "json" // an object a line
)

// QueryRequest runs SQL, which Parse has let pass, over the tables.
type QueryRequest struct {
	Tabular
	SQL    string    `json:"sql"`
	Format RowFormat `json:"format"`
}

// ExportFormat is the form of an exported file.
type ExportFormat string

// The forms of an exported file.
const (
	ExportParquet ExportFormat = "parquet"
	ExportCSV     ExportFormat = "csv"
	ExportJSON    ExportFormat = "jsonl"
	ExportArrow   ExportFormat = "arrow" // Arrow IPC file
)

// ExportRequest writes the one table of Tables as a file. Dst must not exist;
// it is fsynced.
type ExportRequest struct {
	Tabular
	Format ExportFormat `json:"format"`
	Dst    string       `json:"dst"`
}
