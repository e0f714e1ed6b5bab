package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var (
	fenced    = regexp.MustCompile("(?s)```([a-z]+)\n(.*?)\n```")
	mentioned = regexp.MustCompile(`(?:^|[\s\[])--([a-z][a-z-]+)`)
	offered   = regexp.MustCompile(`(?m)^\s+(?:-[a-z], )?--([a-z][a-z-]+)`)
)

// What docs/cluster.md shows can be used: its YAML is YAML, its settings and
// flags are the program's, and systemd takes its unit.
func TestClusterDocument(t *testing.T) {
	b, err := os.ReadFile("../docs/cluster.md")
	if err != nil {
		t.Fatal(err)
	}
	flags := map[string]bool{}
	for _, verb := range [][]string{{"crawl"}, {"cluster", "keys"}} {
		help := crawl(context.Background(), t, append(verb, "--help")...).must(t, 0).stdout
		for _, m := range offered.FindAllStringSubmatch(help, -1) {
			flags[m[1]] = true
		}
	}
	if !flags["join"] || !flags["out"] {
		t.Fatalf("the help names these flags: %v", flags)
	}
	count := map[string]int{}
	for _, m := range fenced.FindAllStringSubmatch(string(b), -1) {
		kind, text := m[1], m[2]
		count[kind]++
		if kind != "ini" || strings.Contains(text, "orbweaver crawl") {
			for _, line := range strings.Split(text, "\n") {
				if !strings.Contains(line, "orbweaver") && !strings.HasPrefix(strings.TrimSpace(line), "--") {
					continue // another program's
				}
				for _, f := range mentioned.FindAllStringSubmatch(line, -1) {
					if !flags[f[1]] {
						t.Errorf("%s: no such flag: --%s", kind, f[1])
					}
				}
			}
		}
		switch kind {
		case "yaml":
			for _, doc := range strings.Split(text, "\n---\n") {
				var v map[string]any
				if err := yaml.Unmarshal([]byte(doc), &v); err != nil || len(v) == 0 {
					t.Errorf("YAML: %v\n%s", err, doc)
				}
				if _, kubernetes := v["apiVersion"]; kubernetes {
					if v["kind"] == nil || v["metadata"] == nil || v["spec"] == nil {
						t.Errorf("no kind, metadata or spec:\n%s", doc)
					}
					continue
				}
				for key := range v {
					if !flags[key] {
						t.Errorf("no such setting: %s", key)
					}
				}
			}
		case "ini":
			verifyUnit(t, text)
		}
	}
	if count["yaml"] < 2 || count["ini"] == 0 || count["sh"] < 2 {
		t.Errorf("examples: %v", count)
	}
}

// verifyUnit asks systemd, where it is, with a program that is there.
func verifyUnit(t *testing.T, text string) {
	t.Helper()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("no systemd-analyze here")
		return
	}
	name := filepath.Join(t.TempDir(), "orbweaver.service")
	text = strings.ReplaceAll(text, "/usr/local/bin/orbweaver", orbweaver)
	text = strings.ReplaceAll(text, "User=orbweaver", "User=daemon")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", name).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "orbweaver.service") {
			t.Errorf("systemd-analyze: %s", line)
		}
	}
	t.Logf("systemd-analyze verify: %v\n%s", err, out)
}
