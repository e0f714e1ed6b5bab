package s3_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testneed"
	"github.com/orbweaver/orbweaver/internal/testkit/testtier"
	"github.com/orbweaver/orbweaver/internal/testweb"
)

// TestVersitygw runs the suite on versitygw.
func TestVersitygw(t *testing.T) {
	testtier.OnlySoak(t, "it builds a server")
	endpoint, _ := startVersitygw(t)
	conform(t, "versitygw", endpoint, "bucket")
}

// TestMoto runs the suite on moto, a server in Python.
func TestMoto(t *testing.T) {
	testtier.OnlySoak(t, "it needs a server of Python")
	server := filepath.Join(os.Getenv("ORBWEAVER_VENV"), "bin", "moto_server")
	if _, err := os.Stat(server); err != nil {
		testneed.Missing(t, "ORBWEAVER_VENV names no environment with moto: run tools/soak/install.sh: ", err)
	}
	addr := freeAddr(t)
	host, port := splitAddr(t, addr)
	start(t, addr, server, "-H", host, "-p", port)
	c := must.Get(minio.New(addr, &minio.Options{Creds: credentials.NewStaticV4(access, secret, "")}))(t)
	must.Do(t, c.MakeBucket(t.Context(), "bucket", minio.MakeBucketOptions{}))
	conform(t, "moto", "http://"+addr, "bucket")
}

func splitAddr(t *testing.T, addr string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	must.Do(t, err)
	return host, port
}

func freeAddr(t testing.TB) string {
	t.Helper()
	return must.Get(testweb.FreeAddrs(1))(t)[0]
}

// startVersitygw starts versitygw with a bucket in a temporary folder. It returns its URL and its process.
func startVersitygw(t testing.TB) (string, *exec.Cmd) {
	t.Helper()
	root := filepath.Join("..", "..", "..", "..")
	program := filepath.Join(t.TempDir(), "versitygw")
	build := exec.Command("go", "build", "-modfile=tools/stores/go.mod", "-o", program,
		"github.com/versity/versitygw/cmd/versitygw")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build versitygw: %v\n%s", err, out)
	}
	dir := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "data", "bucket"), 0o755))
	must.Do(t, os.Mkdir(filepath.Join(dir, "side"), 0o755))
	addr := freeAddr(t)
	cmd := start(t, addr, program, "--access", access, "--secret", secret, "--port", addr, "--quiet", "posix",
		"--sidecar", filepath.Join(dir, "side"), filepath.Join(dir, "data"))
	return "http://" + addr, cmd
}

// start starts a server and waits until it takes connections. It is killed at the end of the test.
func start(t testing.TB, addr, program string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program, args...)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	for end := time.Now().Add(time.Minute); ; {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			must.Do(t, c.Close())
			return cmd
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not listen on %s: %v", program, addr, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
