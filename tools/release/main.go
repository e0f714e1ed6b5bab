// Command release makes the files of a release from the commit that is checked out: archives of the
// program, Debian packages and container images. It needs git and Go. If the commit and the version
// of Go are the same, so is every byte.
//
//	go -C tools run ./release --out ../.build/release
package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// targets are the systems and processors of a release.
var targets = [][2]string{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}}

// A release is what all files of a release share.
type release struct {
	src, out string // the commit's files; the folder of the release
	version  string
	date     time.Time // of the commit
	man      []entry   // manual pages
	scripts  map[string]string
}

func main() {
	out := flag.String("out", ".build/release", "write the release to this folder, which is emptied first")
	root := flag.String("root", "..", "the checkout of Orbweaver")
	flag.Parse()
	if err := makeRelease(*root, *out, targets); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	fmt.Println(*out)
}

// run runs a program in a folder and returns what it prints.
func run(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// makeRelease writes the files of some targets.
func makeRelease(root, out string, targets [][2]string) (err error) {
	temp, err := os.MkdirTemp("", "orbweaver-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	r := &release{src: filepath.Join(temp, "src"), out: out}
	if err := r.checkOut(root); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	programs := filepath.Join(temp, "programs")
	build := func(system, processor string) (string, error) {
		name := filepath.Join(programs, system+"-"+processor, "orbweaver")
		env := []string{"GOOS=" + system, "GOARCH=" + processor, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off"}
		_, err := run(r.src, env, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", name,
			"./cmd/orbweaver")
		return name, err
	}
	here, err := build(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return err
	}
	if err := r.describe(here, filepath.Join(temp, "man")); err != nil {
		return err
	}
	for _, t := range targets {
		program := here
		if t != [2]string{runtime.GOOS, runtime.GOARCH} {
			if program, err = build(t[0], t[1]); err != nil {
				return err
			}
		}
		if err := r.archive(t[0]+"-"+t[1], program); err != nil {
			return err
		}
		if t[0] != "linux" {
			continue
		}
		if err := r.debian(t[1], program); err != nil {
			return err
		}
		if err := r.image(t[1], program); err != nil {
			return err
		}
	}
	return r.sums()
}

// checkOut copies the commit to r.src, so that a changed checkout does not change the release.
func (r *release) checkOut(root string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	commit, err := run(root, nil, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	if changes, err := run(root, nil, "git", "status", "--porcelain"); err != nil {
		return err
	} else if changes != "" {
		fmt.Fprintf(os.Stderr, "release: changes since the commit %s are not in the release:\n%s\n", commit, changes)
	}
	if _, err := run(root, nil, "git", "clone", "--quiet", "--no-checkout", root, r.src); err != nil {
		return err
	}
	if _, err := run(r.src, nil, "git", "checkout", "--quiet", "--detach", commit); err != nil {
		return err
	}
	seconds, err := run(r.src, nil, "git", "show", "-s", "--format=%ct", commit)
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	r.date = time.Unix(n, 0).UTC()
	return err
}

// describe asks the program for its version, its manual pages and its scripts of completion.
func (r *release) describe(program, dir string) error {
	text, err := run("", nil, program, "version", "--json")
	if err != nil {
		return err
	}
	var v struct{ Version, Commit string }
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return err
	}
	if v.Commit == "" {
		return fmt.Errorf("the program does not know its commit: %s", text)
	}
	r.version = v.Version
	if _, err := run("", nil, program, "man", "--out", dir); err != nil {
		return err
	}
	if r.man, err = filesOf(dir, 0o644); err != nil {
		return err
	}
	r.scripts = map[string]string{}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if r.scripts[shell], err = run("", nil, program, "completion", shell); err != nil {
			return err
		}
		r.scripts[shell] += "\n"
	}
	return nil
}

// file returns a file of the commit.
func (r *release) file(path string) (string, error) {
	b, err := os.ReadFile(filepath.Join(r.src, filepath.FromSlash(path)))
	return string(b), err
}

// archive writes the archive of one target.
func (r *release) archive(target, program string) error {
	top := "orbweaver-" + r.version + "-" + target
	t := &tree{}
	t.copy(top+"/orbweaver", program, 0o755)
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md", "cmd/orbweaver/THIRD-PARTY-LICENSES"} {
		t.copy(top+"/"+filepath.Base(name), filepath.Join(r.src, name), 0o644)
	}
	for _, page := range r.man {
		page.name = top + "/man/man1/" + page.name
		t.entries = append(t.entries, page)
	}
	t.add(top+"/completions/orbweaver.bash", r.scripts["bash"], 0o644)
	t.add(top+"/completions/_orbweaver", r.scripts["zsh"], 0o644)
	t.add(top+"/completions/orbweaver.fish", r.scripts["fish"], 0o644)
	packed, err := t.tarGz(r.date)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, top+".tar.gz"), packed, 0o644)
}

// sums writes SHA256SUMS, which "sha256sum -c" reads.
func (r *release) sums() error {
	files, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(b), f.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(text.String()), 0o644)
}

// gz compresses bytes without a name and a time.
func gz(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(w, bytes.NewReader(b)); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}

// filesOf returns the files in a folder, by name.
func filesOf(dir string, mode int64) (list []entry, err error) {
	files, err := os.ReadDir(dir)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		list = append(list, entry{name: f.Name(), body: b, mode: mode})
	}
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return list, err
}
