package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
)

// probe is a program that tells what it sees of its surroundings. Each argument is a question:
//
//	http://..., https://...  request the URL: status and title
//	tcp:HOST:PORT            connect: "connected", or the error
//	name:HOST                look up: the addresses, or the error
//	user                     user, group and effective capabilities
//	variable:NAME            a variable of the environment
//	await                    wait for SIGTERM or SIGINT and exit with code 9
func probe() {
	for _, q := range os.Args[1:] {
		kind, rest, _ := strings.Cut(q, ":")
		switch kind {
		case "http", "https":
			fmt.Println(q, fetched(q))
		case "tcp":
			c, err := net.Dial("tcp", rest)
			if err != nil {
				fmt.Println(q, errors.Unwrap(errors.Unwrap(err)))
				continue
			}
			c.Close()
			fmt.Println(q, "connected")
		case "name":
			addrs, err := net.LookupHost(rest)
			if dns, ok := errors.AsType[*net.DNSError](err); ok {
				fmt.Println(q, dns.Err)
				continue
			}
			fmt.Println(q, addrs, err)
		case "user":
			b, _ := os.ReadFile("/proc/self/status")
			_, caps, _ := strings.Cut(string(b), "CapEff:\t")
			caps, _, _ = strings.Cut(caps, "\n")
			fmt.Println(q, os.Getuid(), os.Getgid(), caps)
		case "variable":
			fmt.Println(q, os.Getenv(rest))
		case "await":
			signals := make(chan os.Signal, 1)
			signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
			fmt.Println("waiting")
			fmt.Println("got", <-signals)
			os.Exit(9)
		}
	}
}

func fetched(url string) string {
	resp, err := http.Get(url)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	_, title, _ := strings.Cut(string(b), "<title>")
	title, _, _ = strings.Cut(title, "</title>")
	return resp.Status + " " + title
}

const nobody = 65534

// programs returns a directory that every user can read, with the programs orbweaver and probe.
func programs(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/tmp", "orbweaver-test-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	self := must.Get(os.Executable())(t)
	b := must.Get(os.ReadFile(self))(t)
	program := filepath.Join(dir, "orbweaver")
	for _, err := range []error{os.Chmod(dir, 0o755), os.WriteFile(program, b, 0o755), os.Chmod(program, 0o755),
		os.Link(program, filepath.Join(dir, "probe"))} {
		must.Do(t, err)
	}
	return dir
}

// The command sees the web at its ports and names, and nothing else, whether root or another user
// calls. It has no privilege that the caller does not have.
func TestTestwebCommandSeesOnlyTheWeb(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("network namespaces exist on Linux only")
	}
	outside := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer outside.Close()
	dir := programs(t)
	users := []int{os.Getuid()}
	if os.Getuid() == 0 {
		users = append(users, nobody)
	}
	for _, user := range users {
		t.Run(fmt.Sprint(user), func(t *testing.T) {
			group := os.Getgid()
			cmd := exec.Command(filepath.Join(dir, "orbweaver"), "testweb", "--demo", "--", "probe", "user",
				"http://www.aldermouth.example/", "https://www.aldermouth.example/", "name:www.aldermouth.example",
				"name:example.org", "tcp:"+outside.Addr().String(), "tcp:192.0.2.1:80", "tcp:127.0.0.1:53",
				"variable:https_proxy", "variable:NO_PROXY")
			cmd.Dir = "/"
			cmd.Env = []string{"PATH=" + dir, "https_proxy=http://192.0.2.1:3128", "NO_PROXY=x", "TMPDIR=/tmp"}
			if user != os.Getuid() {
				group = nobody
				cmd.SysProcAttr = &syscall.SysProcAttr{
					Credential: &syscall.Credential{Uid: uint32(user), Gid: nobody, Groups: []uint32{}}}
			}
			var errs bytes.Buffer
			cmd.Stderr = &errs
			b, err := cmd.Output()
			if strings.Contains(errs.String(), "the system allows no network namespace") {
				testneed.Missing(t, errs.String())
			}
			if err != nil {
				t.Fatalf("%v\n%s%s", err, b, errs.String())
			}
			privileges := "0000000000000000"
			if user == 0 {
				privileges = capabilities(t)
			}
			for _, want := range []string{
				fmt.Sprintf("user %d %d %s", user, group, privileges),
				"http://www.aldermouth.example/ 200 OK Welcome - The Town of Aldermouth",
				"https://www.aldermouth.example/ 200 OK Welcome - The Town of Aldermouth",
				"name:example.org no such host",
				"tcp:" + outside.Addr().String() + " connection refused",
				"tcp:192.0.2.1:80 network is unreachable",
				"tcp:127.0.0.1:53 connected",
				"variable:https_proxy ",
				"variable:NO_PROXY ",
				"requests    2, 2 of them for pages; 1.8 KiB",
			} {
				if !strings.Contains(string(b), "\n"+want+"\n") {
					t.Errorf("no line %q in\n%s%s", want, b, errs.String())
				}
			}
			if !strings.Contains(string(b), "\nname:www.aldermouth.example [127.") {
				t.Errorf("no address in\n%s", b)
			}
		})
	}
}

// capabilities returns the effective capabilities of this process.
func capabilities(t *testing.T) string {
	t.Helper()
	b := must.Get(os.ReadFile("/proc/self/status"))(t)
	_, caps, ok := strings.Cut(string(b), "CapEff:\t")
	if !ok {
		t.Fatalf("no capabilities in\n%s", b)
	}
	caps, _, _ = strings.Cut(caps, "\n")
	return caps
}

// Where the system allows no namespace, the message names the other ways. Here a user namespace
// forbids further ones.
func TestTestwebCommandNotAllowed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("network namespaces exist on Linux only")
	}
	for _, name := range []string{"unshare", "setpriv"} {
		if _, err := exec.LookPath(name); err != nil {
			testneed.Missing(t, err)
		}
	}
	const forbid = "echo 0 >/proc/sys/user/max_user_namespaces || exit 99; exec setpriv --bounding-set -sys_admin "
	if err := exec.Command("unshare", "-Ur", "sh", "-c", forbid+"true").Run(); err != nil {
		testneed.Missing(t, "user namespaces:", err)
	}
	var errs bytes.Buffer
	cmd := exec.Command("unshare", "-Ur", "sh", "-c", forbid+"orbweaver testweb --demo -- probe user")
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != exitConfig || len(b) > 0 {
		t.Errorf("got %v and %q, want exit code %d", err, b, exitConfig)
	}
	const want = "orbweaver: cannot run the command: the system allows no network namespace: a limit in " +
		"/proc/sys/user is reached. Run testweb as root, or allow user namespaces. Or run it without a command, and " +
		"give the web to the crawler as its HTTP proxy (http_proxy=http://127.0.0.1:PORT; see docs/testweb.md)\n"
	if errs.String() != want {
		t.Errorf("got %s\nwant %s", errs.String(), want)
	}
}
