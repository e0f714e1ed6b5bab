package main

import (
	"bytes"
	"encoding/json"
	"errors"
	goflag "flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

var update = goflag.Bool("update", false, "rewrite THIRD-PARTY-LICENSES and the generated pages of docs/reference")

// A linked module is a module with packages in the program, as go list describes it.
type linked struct {
	Path, Version, Dir string
	packages           []string // directories of its linked packages
}

// modules returns the program's modules, by path, on Linux and macOS.
func modules(t *testing.T) []linked {
	t.Helper()
	all := map[string]*linked{}
	for _, system := range []string{"linux", "darwin"} {
		cmd := exec.Command("go", "list", "-deps", "-json=Module,Dir", ".")
		cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct {
				Dir    string
				Module *struct {
					linked
					Main bool
				}
			}
			if err := d.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if p.Module == nil || p.Module.Main {
				continue
			}
			m := all[p.Module.Path]
			if m == nil {
				m = &p.Module.linked
				all[m.Path] = m
			}
			if !slices.Contains(m.packages, p.Dir) {
				m.packages = append(m.packages, p.Dir)
			}
		}
	}
	var list []linked
	for _, path := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[path])
	}
	return list
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|copyright|unlicense)([.-].*)?$`)

// folders returns the folders of a module whose licence may cover linked code: the module's, its
// linked packages', and all between them.
func (m linked) folders() []string {
	folders := []string{m.Dir}
	for _, dir := range m.packages {
		for ; len(dir) > len(m.Dir); dir = filepath.Dir(dir) {
			folders = append(folders, dir)
		}
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}

// licensesOf returns the texts of the licence files of a folder.
func licensesOf(t *testing.T, dir string) (texts []string) {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		if e.IsDir() || !licenseFile.MatchString(e.Name()) {
			continue
		}
		b := must.Get(os.ReadFile(filepath.Join(dir, e.Name())))(t)
		texts = append(texts, strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n")))
	}
	return texts
}

// licenseText returns the whole file. If several modules share a text, it appears once, below all
// their names.
func licenseText(t *testing.T) string {
	goroot := must.Get(exec.Command("go", "env", "GOROOT").Output())(t)
	list := append([]linked{{Path: "Go (standard library and run time)", Dir: strings.TrimSpace(string(goroot))}},
		modules(t)...)
	var order []string
	users := map[string][]string{}
	for _, m := range list {
		var texts []string
		for _, dir := range m.folders() {
			for _, text := range licensesOf(t, dir) {
				if !slices.Contains(texts, text) {
					texts = append(texts, text)
				}
			}
			if len(texts) == 0 {
				t.Errorf("%s has no licence file", m.Path)
			}
		}
		text := strings.Join(texts, "\n\n")
		if users[text] == nil {
			order = append(order, text)
		}
		users[text] = append(users[text], strings.TrimSpace(m.Path+" "+m.Version))
	}
	// The test web's applications contain code of packages from npm.
	const apps = "../../internal/testweb/scripts/licenses"
	for _, e := range must.Get(os.ReadDir(apps))(t) {
		name := strings.ReplaceAll(strings.TrimSuffix(e.Name(), ".txt"), "+", "/")
		at := strings.LastIndex(name, "@")
		text := strings.TrimSpace(string(must.Get(os.ReadFile(filepath.Join(apps, e.Name())))(t)))
		if users[text] == nil {
			order = append(order, text)
		}
		users[text] = append(users[text], name[:at]+" "+name[at+1:])
	}
	var b strings.Builder
	b.WriteString("Orbweaver is licensed under the Apache License 2.0. The program contains the\n" +
		"following software of others, under the licences that stand below its names.\n")
	for _, text := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), text)
	}
	return b.String()
}

// TestLicenses: the file has the licence of every linked module, and no other.
func TestLicenses(t *testing.T) {
	want := licenseText(t)
	if *update {
		must.Do(t, os.WriteFile("THIRD-PARTY-LICENSES", []byte(want), 0o644))
		return
	}
	if licenses == want {
		return
	}
	names := func(s string) (names []string) {
		for _, part := range strings.Split(s, strings.Repeat("=", 80)+"\n")[1:] {
			list, _, _ := strings.Cut(part, "\n\n")
			names = append(names, strings.Split(list, "\n")...)
		}
		return names
	}
	t.Errorf("THIRD-PARTY-LICENSES does not fit the modules that are linked: it names\n%q\nwant\n%q\n"+
		"write it anew: go test ./cmd/orbweaver -run Licenses -update", names(licenses), names(want))
}
