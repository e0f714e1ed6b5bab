package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// repo is the checkout.
const repo = "../.."

var scratch string // a folder for all tests

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "orbweaver-release-test-"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// soak reports whether the tests are a part of the soak (see package testtier of the other module).
func soak() bool { return os.Getenv("ORBWEAVER_SOAK") == "true" }

// onlySoak skips a test in the gate.
func onlySoak(t *testing.T, why string) {
	t.Helper()
	if !soak() {
		t.Skipf("only in the soak (ORBWEAVER_SOAK=true): %s", why)
	}
}

// released returns the targets of the release that the tests make: all of them in the soak, and in the gate Linux on
// this processor, because the others need all packages compiled again.
func released() [][2]string {
	if here := [2]string{"linux", runtime.GOARCH}; !soak() && slices.Contains(targets, here) {
		return [][2]string{here}
	}
	return targets
}

// made makes the release of the commit once.
var made = sync.OnceValues(func() (string, error) {
	out := filepath.Join(scratch, "release")
	return out, makeRelease(repo, out, released())
})

// the returns the only file of the release that matches a pattern. %s in it is this processor.
func the(t *testing.T, pattern string) string {
	t.Helper()
	out, err := made()
	if err != nil {
		t.Fatal(err)
	}
	pattern = strings.ReplaceAll(pattern, "%s", runtime.GOARCH)
	found, err := filepath.Glob(filepath.Join(out, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

// missing skips a test because the machine lacks something. With CI=true it fails the test.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal("missing:", what)
	}
	t.Skip("missing:", what)
}

// needs skips a test that installs and runs the program for Linux as root.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("the release has no package for this machine")
	}
	if os.Getuid() != 0 {
		missing(t, "root, for chroot")
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing(t, p)
		}
	}
}

// must runs a program and returns what it prints.
func must(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	out, err := run(dir, env, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// unpacked returns the program of an archive.
func unpacked(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, "", nil, "tar", "-C", dir, "-xzf", archive)
	found, err := filepath.Glob(filepath.Join(dir, "*", "orbweaver"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", archive, found, err)
	}
	for _, name := range []string{"LICENSE", "THIRD-PARTY-LICENSES", "README.md", "man/man1/orbweaver-crawl.1",
		"completions/orbweaver.bash", "completions/_orbweaver", "completions/orbweaver.fish"} {
		if info, err := os.Stat(filepath.Join(filepath.Dir(found[0]), name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %s: %v", archive, name, err)
		}
	}
	return found[0]
}

// Each archive holds a static, stripped program of its target that knows its commit, and has
// authorities and time zones of its own.
func TestArchives(t *testing.T) {
	commit := must(t, repo, nil, "git", "rev-parse", "HEAD")
	for _, target := range released() {
		program := unpacked(t, the(t, "orbweaver-*-"+target[0]+"-"+target[1]+".tar.gz"))
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		for key, want := range map[string]string{"GOOS": target[0], "GOARCH": target[1], "CGO_ENABLED": "0",
			"-trimpath": "true", "vcs.revision": commit, "vcs.modified": "false"} {
			if settings[key] != want {
				t.Errorf("%v: %s is %q, want %q", target, key, settings[key], want)
			}
		}
		deps := ""
		for _, d := range info.Deps {
			deps += " " + d.Path
		}
		b, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		const roots = "golang.org/x/crypto/x509roots/fallback"
		if !strings.Contains(deps, roots) || !bytes.Contains(b, []byte("Asia/Tokyo")) {
			t.Errorf("%v: no authorities or no time zones", target)
		}
		if target[0] != "linux" {
			continue
		}
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
			t.Errorf("%v: not static", target)
		}
		if f.Section(".symtab") != nil {
			t.Errorf("%v: not stripped", target)
		}
	}
}

// A second release of the commit has the same bytes, and SHA256SUMS has their sums.
func TestReproducible(t *testing.T) {
	onlySoak(t, "builds the release twice")
	first := the(t, "SHA256SUMS")
	second := filepath.Join(t.TempDir(), "release")
	if err := makeRelease(repo, second, released()); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, target := range released() {
		if files++; target[0] == "linux" {
			files += 2 // a Debian package, an image
		}
	}
	got, err := os.ReadFile(filepath.Join(second, "SHA256SUMS"))
	if err != nil || string(got) != string(want) || bytes.Count(want, []byte("\n")) != files {
		t.Errorf("%v: the first release has\n%s\nthe second\n%s", err, want, got)
	}
	for line := range strings.Lines(string(want)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		b, err := os.ReadFile(filepath.Join(filepath.Dir(first), name))
		if err != nil || fmt.Sprintf("%x", sha256.Sum256(b)) != sum {
			t.Errorf("%s: %v, or another sum", name, err)
		}
	}
}

// The package installs with dpkg, and the unit's command line crawls.
func TestDebian(t *testing.T) {
	needs(t, "dpkg", "systemd-sysusers")
	deb, root := the(t, "orbweaver_*_%s.deb"), t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg/info"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "var/lib/dpkg/status"), "")
	must(t, "", nil, "dpkg", "--root="+root, "--force-script-chrootless", "--install", deb)
	if got := must(t, "", nil, "dpkg-query", "--admindir="+root+"/var/lib/dpkg", "-W", "-f=${Status}",
		"orbweaver"); got != "install ok installed" {
		t.Errorf("status: %s", got)
	}
	must(t, root, nil, "md5sum", "--quiet", "-c", filepath.Join(root, "var/lib/dpkg/info/orbweaver.md5sums"))
	for _, name := range []string{"usr/share/man/man1/orbweaver-crawl.1.gz", "usr/share/doc/orbweaver/copyright",
		"usr/share/bash-completion/completions/orbweaver", "usr/lib/systemd/system/orbweaver-coordinator.service"} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	passwd := read(t, filepath.Join(root, "etc/passwd"))
	user := regexp.MustCompile(`(?m)^orbweaver:[^:]*:(\d+):(\d+):`).FindStringSubmatch(passwd)
	if user == nil {
		t.Fatalf("no user orbweaver:\n%s", passwd)
	}
	unit := read(t, filepath.Join(root, "usr/lib/systemd/system/orbweaver@.service"))
	line := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(unit)
	if line == nil {
		t.Fatalf("no ExecStart:\n%s", unit)
	}
	m := machine{root: root, user: number(t, user[1]), group: number(t, user[2])}
	state := filepath.Join(root, "var/lib/orbweaver/crawl") // as StateDirectory makes it
	if err := os.MkdirAll(state, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(state, m.user, m.group); err != nil {
		t.Fatal(err)
	}
	command := strings.Fields(strings.ReplaceAll(line[1], "%i", "crawl"))
	// The settings as they come name no seed, and the program says so.
	if out, code := m.run(t, nil, command...); code != 4 || !strings.Contains(out, "/etc/orbweaver/seeds.txt") {
		t.Errorf("without seeds: exit code %d\n%s", code, out)
	}
	write(t, filepath.Join(root, "etc/orbweaver/seeds.txt"), "https://a.example/\n")
	env := webFor(t, unpacked(t, the(t, "orbweaver-*-linux-%s.tar.gz")), root)
	for range 2 { // the second start continues
		if out, code := m.run(t, env, command...); code != 0 {
			t.Fatalf("exit code %d\n%s", code, out)
		}
	}
	if log := read(t, filepath.Join(state, "logs/crawl.log")); !strings.Contains(log, "https://a.example/1.html") {
		t.Errorf("crawl.log:\n%s", log)
	}
	must(t, "", nil, "dpkg", "--root="+root, "--force-script-chrootless", "--purge", "orbweaver")
	if _, err := os.Stat(filepath.Join(state, "crawl.yaml")); err != nil {
		t.Errorf("the crawl is gone after a purge: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(root, "usr/bin/*")); len(left) > 0 {
		t.Errorf("after a purge: %q", left)
	}
}

// The image runs without anything else: as its own user it crawls the demo. It is the image of the
// Dockerfile.
func TestImage(t *testing.T) {
	onlySoak(t, "starts the program in an image")
	needs(t)
	file := the(t, "orbweaver-*-image-%s.tar")
	m, config := imageRoot(t, file)
	if out, code := m.run(t, nil, slices.Concat(config.Entrypoint, config.Cmd)...); code != 0 ||
		!strings.Contains(out, "Usage: orbweaver") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	out, code := m.run(t, nil, append(config.Entrypoint, "demo", "--delay", "0s")...)
	if code != 0 || !strings.Contains(out, "politeness violations") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if archive, _ := filepath.Glob(filepath.Join(m.root, "crawl/orbweaver-demo/archive/*.warc.gz")); len(archive) == 0 {
		t.Error("no archive in the volume")
	}
	dockerfile := read(t, filepath.Join(repo, "Dockerfile"))
	for _, want := range []string{"\nFROM scratch\n", "\nUSER " + config.User + "\n",
		"\nWORKDIR " + config.WorkingDir + "\n",
		fmt.Sprintf("\nENTRYPOINT [%q]\n", config.Entrypoint[0]), fmt.Sprintf("\nCMD [%q]\n", config.Cmd[0])} {
		if !strings.Contains(dockerfile, want) {
			t.Errorf("Dockerfile lacks %q", want)
		}
	}
	for volume := range config.Volumes {
		if !strings.Contains(dockerfile, "\nVOLUME "+volume+"\n") {
			t.Errorf("Dockerfile lacks the volume %s", volume)
		}
	}
	img, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := img.ConfigFile()
	if err != nil || cfg.Architecture != runtime.GOARCH || cfg.OS != "linux" {
		t.Errorf("%+v, %v", cfg, err)
	}
}

// threeAgents runs three agents, each in the root of an image, and waits until all have ended together.
// hosts is the file of that name, with the addresses of the agents for %s.
func threeAgents(t *testing.T, names []string, hosts string, prepare func(m machine, name string),
	command func(name, addr string) []string, health []string, dir string) {
	t.Helper()
	needs(t)
	file := the(t, "orbweaver-*-image-%s.tar")
	program := unpacked(t, the(t, "orbweaver-*-linux-%s.tar.gz"))
	pid := os.Getpid()
	var addrs []any // of this process alone
	for i := range names {
		addrs = append(addrs, fmt.Sprintf("127.%d.%d.%d", 200+pid/250%50, 1+pid%250, i+1))
	}
	maker, config := imageRoot(t, file)
	keys := []string{"cluster", "keys", "--out", "/keys", "--agents", strings.Join(names, ",")}
	if out, code := maker.run(t, nil, slices.Concat(config.Entrypoint, keys)...); code != 0 {
		t.Fatalf("keys: exit code %d\n%s", code, out)
	}
	var agents []*process
	var roots []machine
	for i, name := range names {
		m, _ := imageRoot(t, file)
		must(t, "", nil, "cp", "-a", filepath.Join(maker.root, "keys"), m.root)
		write(t, filepath.Join(m.root, "etc/hosts"), fmt.Sprintf(hosts, addrs...))
		prepare(m, name)
		env := webFor(t, program, m.root)
		agents = append(agents, m.start(t, env, slices.Concat(config.Entrypoint, command(name, addrs[i].(string)))...))
		roots = append(roots, m)
	}
	pages := 0
	for i, m := range roots {
		agents[i].until(t, func() bool {
			out, code := m.run(t, nil, health...)
			return code == 0 && strings.Contains(out, "ended: finished")
		})
		pages += strings.Count(read(t, filepath.Join(m.root, dir, "logs/crawl.log")), ".html ")
	}
	for _, a := range agents {
		a.end(t)
	}
	if pages != 2 { // 1.html of each host, once in the cluster
		t.Errorf("%d pages in the logs, want 2", pages)
	}
}

const seeds = "https://a.example/\nhttps://b.example/\n"

// Three agents run with the command lines of compose.yaml, and end together. The health checks agree.
func TestCompose(t *testing.T) {
	onlySoak(t, "three processes crawl for seconds")
	var compose struct {
		Services map[string]struct {
			Command     []string
			Healthcheck struct{ Test []string }
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(repo, "packaging/compose.yaml"))), &compose); err != nil {
		t.Fatal(err)
	}
	want := []string{"cluster", "keys", "--out", "/keys", "--agents", "a1,a2,a3"}
	if len(compose.Services) != 4 || !slices.Equal(compose.Services["keys"].Command, want) {
		t.Fatalf("services: %+v", compose.Services)
	}
	health := compose.Services["a1"].Healthcheck.Test
	if len(health) == 0 || health[0] != "CMD" {
		t.Fatalf("the health check needs a shell: %q", health)
	}
	threeAgents(t, []string{"a1", "a2", "a3"}, "%s a1\n%s a2\n%s a3\n", func(m machine, _ string) {
		must(t, "", nil, "cp", "-r", filepath.Join(repo, "packaging/etc"), filepath.Join(m.root, "etc/orbweaver"))
		write(t, filepath.Join(m.root, "etc/orbweaver/seeds.txt"), seeds)
	}, func(name, _ string) []string { return compose.Services[name].Command }, health[1:], "crawl/crawl")
}

// Three agents run with the command line of the pods in docs/cluster.md. The name of the service leads
// to all of them, and their keys are mounted as a Secret is.
func TestKubernetes(t *testing.T) {
	onlySoak(t, "three processes crawl for seconds")
	_, text, ok := strings.Cut(read(t, filepath.Join(repo, "docs/cluster.md")), "\n---\n")
	text, _, ok2 := strings.Cut(text, "```")
	if !ok || !ok2 {
		t.Fatal("docs/cluster.md has no StatefulSet")
	}
	var set struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct {
						Args          []string
						LivenessProbe struct {
							Exec struct{ Command []string }
						} `yaml:"livenessProbe"`
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(text), &set); err != nil || len(set.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%+v, %v", set, err)
	}
	pod := set.Spec.Template.Spec.Containers[0]
	threeAgents(t, []string{"crawl-0", "crawl-1", "crawl-2"}, "%s crawl\n%s crawl\n%s crawl\n",
		func(m machine, _ string) {
			for _, dir := range []string{"data", "config"} {
				if err := os.Mkdir(filepath.Join(m.root, dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chown(filepath.Join(m.root, "data"), 0, m.group); err != nil {
				t.Fatal(err)
			}
			must(t, "", nil, "chmod", "2775", filepath.Join(m.root, "data")) // as fsGroup sets it
			must(t, m.root, nil, "chown", "-R", fmt.Sprintf("0:%d", m.group), "keys")
			must(t, m.root, nil, "sh", "-c", "chmod 0440 keys/*/*.key keys/*/*.pem && chmod 0755 keys/*")
			write(t, filepath.Join(m.root, "config/crawl.yaml"), "agents: 3\nseeds: /config/seeds.txt\n")
			write(t, filepath.Join(m.root, "config/seeds.txt"), seeds)
		}, func(name, addr string) []string {
			var args []string
			for _, a := range pod.Args {
				args = append(args, strings.NewReplacer("$(POD_NAME)", name, "$(POD_IP)", addr).Replace(a))
			}
			return args
		}, pod.LivenessProbe.Exec.Command, "data/crawl")
}

// "go install MODULE@VERSION" makes a program that knows the commit of its version.
func TestGoInstall(t *testing.T) {
	if !soak() {
		t.Skip("only in the soak (ORBWEAVER_SOAK=true): it compiles all packages anew, as those of another module")
	}
	commit := must(t, repo, nil, "git", "rev-parse", "HEAD")
	src, proxy := filepath.Join(t.TempDir(), "src"), t.TempDir()
	root, err := filepath.Abs(repo)
	if err != nil {
		t.Fatal(err)
	}
	must(t, "", nil, "git", "clone", "--quiet", root, src)
	must(t, src, nil, "git", "checkout", "--quiet", "--detach", commit)
	at := must(t, src, []string{"TZ=UTC"}, "git", "show", "-s", "--date=format-local:%Y%m%d%H%M%S", "--format=%cd",
		commit)
	const path = "github.com/orbweaver/orbweaver"
	version := "v0.0.0-" + at + "-" + commit[:12]
	files := filepath.Join(proxy, path, "@v")
	if err := os.MkdirAll(files, 0o755); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := zip.CreateFromDir(&archive, module.Version{Path: path, Version: version}, src); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(files, version+".zip"), archive.String())
	write(t, filepath.Join(files, version+".mod"), read(t, filepath.Join(src, "go.mod")))
	write(t, filepath.Join(files, version+".info"), fmt.Sprintf(`{"Version":%q,"Time":"%s-%s-%sT%s:%s:%sZ"}`, version,
		at[:4], at[4:6], at[6:8], at[8:10], at[10:12], at[12:]))
	write(t, filepath.Join(files, "list"), "") // no release: @latest is the newest commit
	write(t, filepath.Join(proxy, path, "@latest"), read(t, filepath.Join(files, version+".info")))
	cache := must(t, "", nil, "go", "env", "GOMODCACHE")
	bin := t.TempDir()
	// -trimpath lets the build share the packages that the release has compiled.
	must(t, bin, []string{"GOBIN=" + bin, "GOPROXY=file://" + proxy + ",file://" + cache + "/cache/download",
		"GONOSUMDB=*", "GOFLAGS=-trimpath", "CGO_ENABLED=0"}, "go", "install", "-ldflags=-s -w",
		path+"/cmd/orbweaver@latest")
	out := must(t, bin, nil, filepath.Join(bin, "orbweaver"), "version")
	if !strings.Contains(out, commit[:12]) || !strings.Contains(out, at[:4]+"-"+at[4:6]+"-"+at[6:8]+"T") {
		t.Errorf("version of %s:\n%s", version, out)
	}
}
