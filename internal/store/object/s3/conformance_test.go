package s3_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/object/s3"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
)

// servers are what the S3 servers of the tests do with conditions and checksums.
var servers = map[string]object.Abilities{
	"gofakes3":  {IfAbsent: true, IfTag: true},
	"versitygw": {IfAbsent: true, IfAbsentParts: true, IfTag: true, Checksums: true, Attests: true},
	"moto":      {IfAbsent: true, IfAbsentParts: true, IfTag: true},
}

// An env is an environment.
type env map[string]string

func (e env) LookupEnv(name string) (string, bool) { v, ok := e[name]; return v, ok }

// The keys of the servers of the tests.
const access, secret = "AKIDORBWEAVERTESTS", "secret+of/the=tests+0123456789abcdef0123"

// at returns the environment for a server.
func at(endpoint string) env {
	return env{"AWS_ENDPOINT_URL_S3": endpoint, "AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret,
		"AWS_EC2_METADATA_DISABLED": "true"}
}

// open returns the store of a URL.
func open(t testing.TB, where string, e env, o s3.Options, c object.Config) *object.Store {
	t.Helper()
	b := must.Get(s3.Open(must.Get(url.Parse(where))(t), e, o))(t)
	return object.New(b, b.Base(), c)
}

var prefixes atomic.Int64

// conform runs the suite on a server. Each test has a prefix of its own.
func conform(t *testing.T, server, endpoint, bucket string) {
	conformIn(t, server, bucket, at(endpoint))
}

func conformIn(t *testing.T, server, bucket string, e env) {
	teststore.Conform(t, func(t *testing.T) *object.Store {
		return open(t, fmt.Sprintf("s3://%s/suite/%d", bucket, prefixes.Add(1)), e, s3.Options{},
			teststore.Config)
	}, servers[server])
}

// fakeServer starts gofakes3 in this process.
func fakeServer(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(fakeHandler(t))
	t.Cleanup(server.Close)
	return server.URL
}

func fakeHandler(t *testing.T) http.Handler {
	t.Helper()
	backend := s3mem.New()
	must.Do(t, backend.CreateBucket("bucket"))
	return gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()
}

// TestTLS runs the suite over HTTPS, with an authority that AWS_CA_BUNDLE names. Contents are not signed there.
func TestTLS(t *testing.T) {
	server := httptest.NewTLSServer(fakeHandler(t))
	t.Cleanup(server.Close)
	e := at(server.URL)
	e["AWS_CA_BUNDLE"] = filepath.Join(t.TempDir(), "ca.pem")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must.Do(t, os.WriteFile(e["AWS_CA_BUNDLE"], ca, 0o644))
	conformIn(t, "gofakes3", "bucket", e)
}

// TestFakeServer runs the suite on a server of others in this process.
func TestFakeServer(t *testing.T) { conform(t, "gofakes3", fakeServer(t), "bucket") }
