package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// patience bounds the time of a program on a busy machine.
const patience = 3 * time.Minute

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A machine runs programs in a folder, which is / to them.
type machine struct {
	root, dir   string
	user, group int
}

// imageRoot unpacks an image, and returns the machine that runs it.
func imageRoot(t *testing.T, file string) (machine, v1.Config) {
	t.Helper()
	img, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	files := mutate.Extract(img)
	defer files.Close()
	cmd := exec.Command("tar", "-C", root, "--numeric-owner", "-xp")
	cmd.Stdin = files
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if left, err := os.ReadDir(filepath.Join(root, "bin")); err == nil {
		t.Errorf("the image has programs: %v", left)
	}
	user, group, _ := strings.Cut(cfg.Config.User, ":")
	return machine{root, cfg.Config.WorkingDir, number(t, user), number(t, group)}, cfg.Config
}

// A process is a program that runs.
type process struct {
	cmd   *exec.Cmd
	out   *bytes.Buffer
	ended chan error
}

// start starts a program of the machine. It sees only the variables of env.
func (m machine) start(t *testing.T, env []string, command ...string) *process {
	t.Helper()
	// The folders above a test's folder are not open to other users; chroot comes before the user.
	cmd := &exec.Cmd{Path: command[0], Args: command, Dir: m.dir, Env: append([]string{"HOME=/"}, env...)}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: m.root,
		Credential: &syscall.Credential{Uid: uint32(m.user), Gid: uint32(m.group)}}
	p := &process{cmd, new(bytes.Buffer), make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = p.out, p.out
	if err := cmd.Start(); err != nil {
		t.Fatalf("%q: %v", command, err)
	}
	go func() { p.ended <- cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-p.ended
	})
	return p
}

// run runs a program of the machine to its end.
func (m machine) run(t *testing.T, env []string, command ...string) (out string, code int) {
	t.Helper()
	p := m.start(t, env, command...)
	select {
	case err := <-p.ended:
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatalf("%q: %v", command, err)
		}
	case <-time.After(patience):
		t.Fatalf("%q does not end", command)
	}
	return p.out.String(), p.cmd.ProcessState.ExitCode()
}

// until waits until done is true, while the process runs.
func (p *process) until(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(100 * time.Millisecond) {
		select {
		case err := <-p.ended:
			t.Fatalf("%q ended: %v\n%s", p.cmd.Args, err, p.out)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("%q: it takes too long", p.cmd.Args)
		}
	}
}

// end stops the process, which must end with exit code 0.
func (p *process) end(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatalf("%q does not end after SIGTERM", p.cmd.Args)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("%q: exit code %d\n%s", p.cmd.Args, code, p.out)
	}
}

// webFor serves two hosts with two pages each. It returns the variables that lead a crawl in a root
// to them.
func webFor(t *testing.T, program, root string) []string {
	t.Helper()
	site := t.TempDir()
	write(t, filepath.Join(site, "index.html"), `<a href="1.html">1</a>`)
	write(t, filepath.Join(site, "1.html"), "one")
	cmd := exec.Command(program, "testweb", "--json", "--ca-out", filepath.Join(root, "ca.pem"),
		"--folder", "a.example="+site, "--folder", "b.example="+site)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		io.Copy(io.Discard, out)
		cmd.Wait()
	})
	var said struct {
		DNS       string
		ConnectTo []string `json:"connect_to"`
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(line, &said); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if err := os.Chmod(filepath.Join(root, "ca.pem"), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{"ORBWEAVER_DNS=" + said.DNS, "ORBWEAVER_CONNECT_TO=" + strings.Join(said.ConnectTo, ","),
		"ORBWEAVER_CA=/ca.pem", "ORBWEAVER_ALLOW_PRIVATE=true", "ORBWEAVER_DELAY=0s",
		"ORBWEAVER_CONTACT=test@example.org"}
}
