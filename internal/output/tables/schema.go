package tables

import (
	"slices"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// A column of a table.
type column struct {
	name     string
	node     parquet.Node // without Optional
	optional bool
	// repeats means that the values of a column are often the same, so that it gets a dictionary.
	repeats bool
}

var (
	text   = parquet.String
	number = func() parquet.Node { return parquet.Leaf(plain{parquet.Int32Type}) }
	long   = func() parquet.Node { return parquet.Leaf(plain{parquet.Int64Type}) }
	short  = func() parquet.Node { return parquet.Int(16) }
	millis = func() parquet.Node { return parquet.Timestamp(parquet.Millisecond) }
)

// indexColumns are the columns of Common Crawl's table of its index, and ours from depth on.
var indexColumns = []column{
	{name: "url_surtkey", node: text()},
	{name: "url", node: text()},
	{name: "url_host_name", node: text(), repeats: true},
	{name: "url_host_tld", node: text(), optional: true, repeats: true},
	{name: "url_host_2nd_last_part", node: text(), optional: true, repeats: true},
	{name: "url_host_3rd_last_part", node: text(), optional: true, repeats: true},
	{name: "url_host_4th_last_part", node: text(), optional: true, repeats: true},
	{name: "url_host_5th_last_part", node: text(), optional: true, repeats: true},
	{name: "url_host_registry_suffix", node: text(), optional: true, repeats: true},
	{name: "url_host_registered_domain", node: text(), optional: true, repeats: true},
	{name: "url_host_private_suffix", node: text(), optional: true, repeats: true},
	{name: "url_host_private_domain", node: text(), optional: true, repeats: true},
	{name: "url_host_name_reversed", node: text(), optional: true, repeats: true},
	{name: "url_protocol", node: text(), repeats: true},
	{name: "url_port", node: number(), optional: true, repeats: true},
	{name: "url_path", node: text()},
	{name: "url_query", node: text(), optional: true},
	{name: "fetch_time", node: millis()},
	{name: "fetch_status", node: short(), repeats: true},
	{name: "fetch_redirect", node: text(), optional: true},
	{name: "content_digest", node: text(), optional: true},
	{name: "content_mime_type", node: text(), optional: true, repeats: true},
	{name: "content_mime_detected", node: text(), optional: true, repeats: true},
	{name: "content_charset", node: text(), optional: true, repeats: true},
	{name: "content_languages", node: text(), optional: true, repeats: true},
	{name: "content_truncated", node: text(), optional: true, repeats: true},
	{name: "warc_filename", node: text(), repeats: true},
	{name: "warc_record_offset", node: number()},
	{name: "warc_record_length", node: number()},
	{name: "warc_segment", node: text(), repeats: true},
	{name: "depth", node: number(), optional: true, repeats: true},
	{name: "referrer", node: text(), optional: true, repeats: true},
	{name: "hops", node: text(), optional: true, repeats: true},
	{name: "duplicate_of", node: text(), optional: true},
	{name: "near_duplicate_of", node: text(), optional: true},
	{name: "category", node: text(), optional: true, repeats: true},
}

// plain is a Type without a logical type: Spark writes none for an integer of 32 or 64 bits.
type plain struct{ parquet.Type }

func (plain) LogicalType() *format.LogicalType { return nil }

// schemaOf returns the schema of a table. Its root has the name that Spark gives it.
func schemaOf(columns []column) *parquet.Schema {
	root := ordered{Group: parquet.Group{}}
	for _, c := range columns {
		n := c.node
		if n.Leaf() {
			var e encoding.Encoding = &parquet.Plain
			if c.repeats {
				e = &parquet.RLEDictionary
			}
			n = parquet.Encoded(n, e)
		}
		if c.optional {
			n = parquet.Optional(n)
		}
		root.Group[c.name] = n
		root.names = append(root.names, c.name)
	}
	return parquet.NewSchema("spark_schema", root)
}

// ordered is a Group whose fields have an order. A parquet.Group sorts them by name.
type ordered struct {
	parquet.Group
	names []string
}

func (o ordered) Fields() []parquet.Field {
	fields := o.Group.Fields()
	slices.SortFunc(fields, func(a, b parquet.Field) int {
		return slices.Index(o.names, a.Name()) - slices.Index(o.names, b.Name())
	})
	return fields
}

func (o ordered) String() string { return parquet.NewSchema("", o).String() }

// A row collects the values of a row, in the order of the columns.
type row struct {
	columns []column
	values  parquet.Row
	size    int64 // bytes, about
	at      int   // the next column
}

func (r *row) begin() { r.values, r.size, r.at = r.values[:0], 0, 0 }

func (r *row) put(v parquet.Value, size int) {
	level := 0
	if r.columns[r.at].optional {
		level = 1
	}
	r.values = append(r.values, v.Level(0, level, r.at))
	r.size += int64(size)
	r.at++
}

func (r *row) null() {
	r.values = append(r.values, parquet.NullValue().Level(0, 0, r.at))
	r.at++
}

// text puts s. In an optional column the empty text is null.
func (r *row) text(s string) {
	if s == "" && r.columns[r.at].optional {
		r.null()
		return
	}
	r.put(parquet.ByteArrayValue([]byte(s)), len(s))
}

// textOr puts s, or null if there is none.
func (r *row) textOr(s string, ok bool) {
	if !ok {
		r.null()
		return
	}
	r.put(parquet.ByteArrayValue([]byte(s)), len(s))
}

func (r *row) int32(n int32) { r.put(parquet.Int32Value(n), 4) }

func (r *row) time(t time.Time) { r.put(parquet.Int64Value(t.UnixMilli()), 8) }
