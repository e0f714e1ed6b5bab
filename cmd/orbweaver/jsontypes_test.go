package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/orbweaver/orbweaver/internal/clock"
	"github.com/orbweaver/orbweaver/internal/coordination"
	"github.com/orbweaver/orbweaver/internal/crawl"
	"github.com/orbweaver/orbweaver/internal/node"
	"github.com/orbweaver/orbweaver/internal/node/operate/pb"
	"github.com/orbweaver/orbweaver/internal/output/mirror"
	"github.com/orbweaver/orbweaver/internal/output/wacz"
	"github.com/orbweaver/orbweaver/internal/report"
	"github.com/orbweaver/orbweaver/internal/report/review"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testweb"
	"github.com/orbweaver/orbweaver/internal/testweb/demo"
)

// twoTypes are the names of fields that have more than one type, with the reason. No name may be added.
var twoTypes = map[string]string{
	"again": "a page; the count of such pages in boundary", "blocked": "a host; the count of such hosts",
	"paused":    "the crawl; the count of such hosts",
	"ended":     "when a run ended; whether a coordinated crawl has",
	"truncated": "a page; the count of such pages; why a record is, as WARC-Truncated",
	"told":      "the answers of agents; a count of pages", "share": "a part; the word of a plan's overheads",
	"agents": "the list, or the answers of all; a count by size of a call", "broken": "the list; a count of a host",
	"hosts": "a count; the worst ones", "links": "a count; the list", "pages": "a count; the list; a switch",
	"redirects": "the list of chains; the length of one", "seeds": "a count; the list",
	"via":  "a URL; one for each page",
	"hops": "a path in letters; the steps of a chain of redirects", "hours": "limits of a week; counts",
	"orders": "the list; their ids", "order": "an order; its id", "state": "a word; the counts of an application",
	"status": "of HTTP; the counts of an agent", "rate": "a text; the limit that holds",
	"application": "its name; all of it", "disk": "the price; the free space",
	"line": "a number; a line of an index", "from": "a source; the lower bound of a range; the senders of pages",
}

// A fieldTypes has the types of each field in JSON, and an object that has the field with this type.
type fieldTypes map[string]map[string]string

func (f fieldTypes) add(name, kind, where string) {
	if f[name] == nil {
		f[name] = map[string]string{}
	}
	if f[name][kind] == "" {
		f[name][kind] = where
	}
}

// fields adds the fields of a Go struct, and of the structs in it.
func (f fieldTypes) fields(t reflect.Type, where string) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || name == "" && !field.Anonymous:
		case field.Anonymous && name == "":
			if field.Type.Kind() == reflect.Pointer {
				field.Type = field.Type.Elem()
			}
			f.fields(field.Type, where)
		default:
			f.add(name, f.kind(field.Type, where+"."+name), where)
		}
	}
}

// kind returns the type of a Go value in JSON, and adds the fields of structs.
func (f fieldTypes) kind(t reflect.Type, where string) string {
	switch {
	case t == reflect.TypeFor[clock.Stamp]():
		return "time"
	case t == reflect.TypeFor[time.Time]():
		return "time in another form"
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]()):
		return "own form of " + t.String()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return f.kind(t.Elem(), where)
	case reflect.Struct:
		f.fields(t, where)
		return "object"
	case reflect.Map:
		f.kind(t.Elem(), where)
		return "object"
	case reflect.Slice, reflect.Array:
		return "list of " + f.kind(t.Elem(), where)
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "boolean"
	}
	return "number"
}

// message adds the fields of a message of the API, and of the messages in it.
func (f fieldTypes) message(d protoreflect.MessageDescriptor, done map[protoreflect.FullName]bool) {
	if done[d.FullName()] {
		return
	}
	done[d.FullName()] = true
	for i := range d.Fields().Len() {
		field := d.Fields().Get(i)
		kind := "number"
		switch m := field.Message(); {
		case m != nil && m.FullName() == "google.protobuf.Timestamp":
			kind = "time"
		case m != nil:
			kind = "object"
			if m.FullName() != "google.protobuf.Struct" {
				f.message(m, done)
			}
		case field.Kind() == protoreflect.BoolKind:
			kind = "boolean"
		case field.Kind() == protoreflect.StringKind || field.Kind() == protoreflect.BytesKind ||
			field.Kind() == protoreflect.EnumKind:
			kind = "text"
		}
		if field.IsList() {
			kind = "list of " + kind
		}
		f.add(field.TextName(), kind, string(d.Name()))
	}
}

var stamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(.*)Z$`)

// value adds the fields of a value that was read from JSON, and returns its type. An empty list has no type.
func (f fieldTypes) value(v any, where string) string {
	switch v := v.(type) {
	case map[string]any:
		for name, v := range v {
			kind := "object"
			if !counts[name] {
				kind = f.value(v, where)
			}
			if kind != "" {
				f.add(name, kind, where)
			}
		}
		return "object"
	case []any:
		kind := ""
		for _, v := range v {
			kind = f.value(v, where)
		}
		if kind == "" {
			return ""
		}
		return "list of " + kind
	case string:
		switch m := stamp.FindStringSubmatch(v); {
		case m == nil:
			return "text"
		case len(m[1]) != 4:
			return "time in another form"
		}
		return "time"
	case bool:
		return "boolean"
	case nil:
		return ""
	}
	return "number"
}

// counts are objects whose fields are no names, but kinds of errors, status codes and such.
var counts = map[string]bool{"errors_by_kind": true, "responses_by_status": true, "skipped": true}

// lines adds the objects of a text.
func (f fieldTypes) lines(t *testing.T, text []byte, where string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	n := 0
	for ; d.More(); n++ {
		var v any
		must.Do(t, d.Decode(&v))
		f.value(v, where)
	}
	if n == 0 {
		t.Errorf("%s is empty", where)
	}
}

// TestJSONTypes: a field has one type in all JSON of a crawl: of the files, of the commands and of the API.
func TestJSONTypes(t *testing.T) {
	f := fieldTypes{}
	for _, v := range []any{report.Summary{}, streamedPage{}, plannedCrawl{}, plannedSeed{}, plannedExample{},
		crawl.Status{}, crawl.ClusterStatus{}, node.Waiting{}, node.Size{}, review.Review{}, coordination.Status{},
		planAnswer{}, graphBuilt{}, graphStats{}, graphRanks{}, graphTau{}, mirror.Result{}, wacz.Result{}} {
		f.fields(reflect.TypeOf(v), reflect.TypeOf(v).String())
	}
	done := map[protoreflect.FullName]bool{}
	calls := pb.File_operator_proto.Services().ByName("Operator").Methods()
	for i := range calls.Len() {
		f.message(calls.Get(i).Output(), done)
	}
	web, err := testweb.New(testweb.Config{Sites: demo.Sites()})
	must.Do(t, err)
	defer web.Start()()
	dir := filepath.Join(t.TempDir(), "crawl")
	args := []string{"--dir", dir, "--contact", "x@example.org", "--allow-private", "--scope", "any", "--links",
		"--requisites", "--exclude", "library|tidewatch", "--delay", "0s", "--retry-wait", "20ms",
		"--slow-down", "20ms", "--dns", web.DNSAddr(), "--connect-to", strings.Join(web.ConnectTo(), ","),
		demo.Seeds()[0]}
	var out bytes.Buffer
	if code := run(append([]string{"crawl", "--stream", "jsonl"}, args...), &out, io.Discard); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	f.lines(t, out.Bytes(), "--stream jsonl")
	for _, name := range []string{"logs/crawl.jsonl", "logs/events.jsonl", "reports/skipped.jsonl",
		"reports/summary.json"} {
		f.lines(t, must.Get(os.ReadFile(filepath.Join(dir, name)))(t), name)
	}
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if kinds := f[name]; len(kinds) > 1 && twoTypes[name] == "" || kinds["time in another form"] != "" {
			text := name + ":"
			for _, kind := range slices.Sorted(maps.Keys(kinds)) {
				text += fmt.Sprintf(" %s in %s;", kind, kinds[kind])
			}
			wrong = append(wrong, text)
		} else if len(kinds) == 1 && twoTypes[name] != "" {
			t.Errorf("%s has one type now: remove it from twoTypes", name)
		}
		if strings.ContainsAny(name, " -") || strings.ToLower(name) != name {
			wrong = append(wrong, name+": a name has small letters, digits and _")
		}
	}
	if len(wrong) > 0 {
		t.Errorf("fields with two types:\n%s", strings.Join(wrong, "\n"))
	}
}
