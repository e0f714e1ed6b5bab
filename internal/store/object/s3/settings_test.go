package s3

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"

	"github.com/orbweaver/orbweaver/internal/testkit/must"
)

// values is an Environment.
type values map[string]string

func (v values) LookupEnv(name string) (string, bool) { s, ok := v[name]; return s, ok }

// TestAddressing: a profile tells where a request has the bucket, as the tools of AWS read it.
func TestAddressing(t *testing.T) {
	for _, c := range []struct {
		config string
		want   minio.BucketLookupType
		err    string
	}{
		{"[default]\nregion = x\n", minio.BucketLookupAuto, ""},
		{"[default]\ns3 =\n  addressing_style = path\n", minio.BucketLookupPath, ""},
		{"[default]\ns3 =\n\tmax_queue_size = 5\n\n\tAddressing_Style=virtual # mine\nregion = x\n",
			minio.BucketLookupDNS, ""},
		{"[default]\ns3 =\n  addressing_style = auto\n", minio.BucketLookupAuto, ""},
		{"[default]\ns3control =\n  addressing_style = path\n", minio.BucketLookupAuto, ""},
		{"[default]\naddressing_style = path\n", minio.BucketLookupAuto, ""},
		{"[default]\n  addressing_style = path\n", minio.BucketLookupAuto, ""},
		{"[profile a]\ns3 =\n  addressing_style = path\n[default]\nregion = x\n", minio.BucketLookupAuto, ""},
		{"[default]\ns3 =\n  endpoint_url = http://192.0.2.1\n  region = y\n", minio.BucketLookupAuto, ""},
		{"[default]\ns3 =\n  addressing_style = paht\n", 0, `addressing_style = "paht": give path, virtual or auto`},
	} {
		file := filepath.Join(t.TempDir(), "config")
		must.Do(t, os.WriteFile(file, []byte(c.config), 0o600))
		s, err := readSettings(values{"AWS_CONFIG_FILE": file})
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%q: error %v, want %q", c.config, err, c.err)
			}
		case err != nil || s.lookup != c.want || s.endpoint.Host != "s3.amazonaws.com" || s.region == "y":
			t.Errorf("%q: %+v, %v; want %d", c.config, s, err, c.want)
		}
	}
}
