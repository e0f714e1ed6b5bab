package tables

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// A thrift reads the compact protocol of Thrift, in which the footer of a Parquet file is written. It shares no code
// with the library that writes the files. A struct becomes a map from the numbers of its fields.
type thrift struct{ b []byte }

func (r *thrift) byte() byte {
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *thrift) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		panic("not a varint")
	}
	r.b = r.b[n:]
	return v
}

func (r *thrift) int() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *thrift) value(kind byte) any {
	switch kind {
	case 1, 2:
		return kind == 1
	case 3:
		return int64(r.byte())
	case 4, 5, 6:
		return r.int()
	case 8:
		n := r.uvarint()
		s := string(r.b[:n])
		r.b = r.b[n:]
		return s
	case 9, 10:
		head := r.byte()
		n := uint64(head >> 4)
		if n == 15 {
			n = r.uvarint()
		}
		list := []any{}
		for range n {
			if kind := head & 15; kind == 1 || kind == 2 {
				list = append(list, r.byte() == 1)
			} else {
				list = append(list, r.value(kind))
			}
		}
		return list
	case 12:
		fields, id := map[int64]any{}, int64(0)
		for {
			head := r.byte()
			if head == 0 {
				return fields
			}
			if id += int64(head >> 4); head>>4 == 0 {
				id = r.int()
			}
			fields[id] = r.value(head & 15)
		}
	}
	panic(fmt.Sprintf("type %d of thrift", kind))
}

// A footer is what a Parquet file says of itself.
type footer struct {
	rows    int64
	schema  []string // "name type logical required|optional"
	groups  []map[int64]any
	created string
}

// footerOf reads the footer of a Parquet file.
func footerOf(t testing.TB, file []byte) (f footer) {
	t.Helper()
	const magic = "PAR1"
	n := len(file)
	if n < 12 || string(file[:4]) != magic || string(file[n-4:]) != magic {
		t.Fatalf("not a Parquet file: %d bytes", n)
	}
	size := int(binary.LittleEndian.Uint32(file[n-8:]))
	m := (&thrift{file[n-8-size : n-8]}).value(12).(map[int64]any)
	f.rows, f.created = m[3].(int64), m[6].(string)
	types := map[int64]string{1: "INT32", 2: "INT64", 6: "BYTE_ARRAY"}
	converted := map[int64]string{0: "UTF8", 3: "LIST", 9: "TIMESTAMP_MILLIS", 16: "INT_16"}
	for _, e := range m[2].([]any)[1:] {
		e := e.(map[int64]any)
		kind, logical, null := "group", "-", "required"
		if k, ok := e[1].(int64); ok {
			kind = types[k]
		}
		if c, ok := e[6].(int64); ok {
			logical = converted[c]
		} else if e[10] != nil {
			logical = fmt.Sprint(e[10])
		}
		switch e[3] {
		case int64(1):
			null = "optional"
		case int64(2):
			null = "repeated"
		}
		f.schema = append(f.schema, strings.Join([]string{e[4].(string), kind, logical, null}, " "))
	}
	for _, g := range m[4].([]any) {
		f.groups = append(f.groups, g.(map[int64]any))
	}
	return f
}

// column returns the metadata of a column of a row group, and whether the file has a page index of it.
func (f *footer) column(group, i int) (meta map[int64]any, indexed bool) {
	c := f.groups[group][1].([]any)[i].(map[int64]any)
	return c[3].(map[int64]any), c[4] != nil && c[6] != nil
}
