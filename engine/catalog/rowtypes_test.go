package catalog_test

import (
	"fmt"
	"reflect"

	"github.com/tarnfs/tarn/engine/catalog"
)

// rowTypes are the typed forms of all tables.
var rowTypes = map[string]reflect.Type{
	"metadata":                     reflect.TypeFor[catalog.MetadataRow](),
	"snapshot":                     reflect.TypeFor[catalog.SnapshotRow](),
	"snapshot_changes":             reflect.TypeFor[catalog.SnapshotChangesRow](),
	"schema":                       reflect.TypeFor[catalog.SchemaRow](),
	"table":                        reflect.TypeFor[catalog.TableRow](),
	"column":                       reflect.TypeFor[catalog.ColumnRow](),
	"view":                         reflect.TypeFor[catalog.ViewRow](),
	"macro":                        reflect.TypeFor[catalog.MacroRow](),
	"macro_impl":                   reflect.TypeFor[catalog.MacroImplRow](),
	"macro_parameters":             reflect.TypeFor[catalog.MacroParameterRow](),
	"data_file":                    reflect.TypeFor[catalog.DataFileRow](),
	"delete_file":                  reflect.TypeFor[catalog.DeleteFileRow](),
	"files_scheduled_for_deletion": reflect.TypeFor[catalog.FileScheduledForDeletionRow](),
	"inlined_data_tables":          reflect.TypeFor[catalog.InlinedDataTableRow](),
	"column_mapping":               reflect.TypeFor[catalog.ColumnMappingRow](),
	"name_mapping":                 reflect.TypeFor[catalog.NameMappingRow](),
	"table_stats":                  reflect.TypeFor[catalog.TableStatsRow](),
	"table_column_stats":           reflect.TypeFor[catalog.TableColumnStatsRow](),
	"file_column_stats":            reflect.TypeFor[catalog.FileColumnStatsRow](),
	"file_variant_stats":           reflect.TypeFor[catalog.FileVariantStatsRow](),
	"partition_info":               reflect.TypeFor[catalog.PartitionInfoRow](),
	"partition_column":             reflect.TypeFor[catalog.PartitionColumnRow](),
	"file_partition_value":         reflect.TypeFor[catalog.FilePartitionValueRow](),
	"sort_info":                    reflect.TypeFor[catalog.SortInfoRow](),
	"sort_expression":              reflect.TypeFor[catalog.SortExpressionRow](),
	"tag":                          reflect.TypeFor[catalog.TagRow](),
	"column_tag":                   reflect.TypeFor[catalog.ColumnTagRow](),
	"schema_versions":              reflect.TypeFor[catalog.SchemaVersionRow](),
}

// roundTyped takes a row through its struct, which must not change it.
func roundTyped(t *catalog.Table, row catalog.Row) error {
	back, err := catalog.RoundTyped(t, rowTypes[t.Name], row)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(row, back) {
		return fmt.Errorf("%s: %v became %v", t.Name, row, back)
	}
	return nil
}
