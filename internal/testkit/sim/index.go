package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An indexed is what a line of an index says of a record.
type indexed struct {
	time, url, status, digest string
	file                      string
	offset, length            int
}

// indexedAs returns what the line of a record must say.
func (r record) indexedAs(file string) indexed {
	l := indexed{
		time: strings.NewReplacer("-", "", ":", "", "T", "", "Z", "").Replace(r.date)[:14], url: r.url,
		status: strconv.Itoa(r.status), digest: strings.TrimPrefix(r.digest, "sha1:"), file: file,
		offset: r.offset, length: r.length,
	}
	if r.revisit {
		l.status = ""
	}
	return l
}

// readIndexLine reads a line: a key for sorting, a time, and a JSON object.
func readIndexLine(line string) (l indexed, err error) {
	key, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	stamp, object, ok := strings.Cut(rest, " ")
	var fields struct{ URL, Status, Digest, Length, Offset, Filename string }
	if err = json.Unmarshal([]byte(object), &fields); err != nil || !ok || key == "" || !strings.HasSuffix(line, "\n") {
		return l, fmt.Errorf("no line of an index: %q (%v)", line, err)
	}
	l = indexed{time: stamp, url: fields.URL, status: fields.Status, digest: fields.Digest, file: fields.Filename}
	if l.offset, err = strconv.Atoi(fields.Offset); err == nil {
		l.length, err = strconv.Atoi(fields.Length)
	}
	return l, err
}

// checkIndex compares an index with the records of the files: each must have a line that says where it is. It returns
// at most three faults.
func checkIndex(index string, files map[string][]record) (wrong []string) {
	want := map[indexed]int{}
	for file, list := range files {
		for _, r := range list {
			want[r.indexedAs(file)]++
		}
	}
	lines := slices.Collect(strings.Lines(index))
	if !slices.IsSorted(lines) {
		wrong = append(wrong, "the index is not sorted")
	}
	for _, line := range lines {
		l, err := readIndexLine(line)
		switch {
		case err != nil:
			wrong = append(wrong, err.Error())
		case want[l] == 0:
			wrong = append(wrong, fmt.Sprintf("the index has a line of no record: %q", line))
		default:
			want[l]--
		}
	}
	for l, n := range want {
		if n > 0 {
			wrong = append(wrong, fmt.Sprintf("the index has no line of a record: %+v", l))
		}
	}
	return wrong[:min(3, len(wrong))]
}
