package archive

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

const samples = "../../shared/data/warc"

// needSamples skips, or fails where all must run, without the shared data.
func needSamples(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(samples, "index.jsonl")); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

type sample struct {
	File    string
	Records int64
	Errors  *int64 `json:"warchaeology_errors"`
}

// sampleWARCs are the files of the collection that are WARC files.
func sampleWARCs(t testing.TB) (list []sample) {
	t.Helper()
	needSamples(t)
	b, err := os.ReadFile(filepath.Join(samples, "index.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(bytes.NewReader(b))
	for sc.Scan() {
		var s sample
		if err := json.Unmarshal(sc.Bytes(), &s); err != nil {
			t.Fatal(err)
		}
		if s.Errors != nil {
			list = append(list, s)
		}
	}
	return list
}

func TestVerifySamples(t *testing.T) {
	for _, s := range sampleWARCs(t) {
		b, err := os.ReadFile(filepath.Join(samples, s.File))
		if err != nil {
			t.Fatal(err)
		}
		rep, err := Verify(bytes.NewReader(b))
		if err != nil {
			t.Errorf("%s: %v", s.File, err)
		}
		t.Log(s.File, rep.Records, s.Records, *s.Errors, rep.Errors, rep.Warnings)
		for _, p := range rep.Problems[:min(3, len(rep.Problems))] {
			t.Log("   ", p)
		}
	}
}
