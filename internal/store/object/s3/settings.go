package s3

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7"
)

func tlsConfig(pool *x509.CertPool) *tls.Config {
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// A settings is what the environment and the files of AWS say of stores.
type settings struct {
	env      Environment
	profile  string
	named    bool // the profile was asked for
	config   string
	secret   string // the file of credentials
	endpoint *url.URL
	region   string
	lookup   minio.BucketLookupType // where a request has the bucket: in the name of the host or in the path
}

// readSettings reads what is known before the first request.
func readSettings(env Environment) (*settings, error) {
	s := &settings{env: env, profile: variable(env, "AWS_PROFILE", "AWS_DEFAULT_PROFILE"),
		config: variable(env, "AWS_CONFIG_FILE"), secret: variable(env, "AWS_SHARED_CREDENTIALS_FILE")}
	s.named = s.profile != ""
	if !s.named {
		s.profile = "default"
	}
	if home := variable(env, "HOME", "USERPROFILE"); home != "" {
		if s.config == "" {
			s.config = filepath.Join(home, ".aws", "config")
		}
		if s.secret == "" {
			s.secret = filepath.Join(home, ".aws", "credentials")
		}
	}
	p, found, err := s.read()
	if err != nil {
		return nil, err
	}
	if s.named && !found {
		return nil, fmt.Errorf("AWS_PROFILE: neither %s nor %s has a profile %q", s.config, s.secret, s.profile)
	}
	s.region = variable(env, "AWS_REGION", "AWS_DEFAULT_REGION")
	if s.region == "" {
		s.region = p["region"]
	}
	if s.region == "" {
		s.region = "us-east-1"
	}
	switch style := strings.ToLower(p[addressing]); style {
	case "", "auto":
	case "path":
		s.lookup = minio.BucketLookupPath
	case "virtual":
		s.lookup = minio.BucketLookupDNS
	default:
		return nil, fmt.Errorf("%s: addressing_style = %.20q: give path, virtual or auto", s.config, style)
	}
	where := variable(env, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
	if where == "" {
		where = p["endpoint_url"]
	}
	if where == "" {
		where = "https://s3.amazonaws.com"
	}
	if s.endpoint, err = url.Parse(where); err != nil {
		return nil, errors.New("AWS_ENDPOINT_URL_S3: this is no URL; give one such as https://store.example:9000")
	}
	u := s.endpoint
	switch {
	case u.User != nil:
		return nil, errors.New("AWS_ENDPOINT_URL_S3: the URL has a user name; credentials belong into AWS_ variables")
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "":
		return nil, fmt.Errorf("AWS_ENDPOINT_URL_S3: %q: give http:// or https://, a host and a port, without a path",
			where)
	}
	return s, nil
}

// maxFile bounds a file of AWS in bytes.
const maxFile = 1 << 20

// read returns the lines of the profile in both files. Those of the file of credentials come first.
func (s *settings) read() (p map[string]string, found bool, err error) {
	p = map[string]string{}
	for _, f := range []struct{ name, section string }{{s.config, "profile " + s.profile}, {s.secret, s.profile}} {
		section := f.section
		if s.profile == "default" {
			section = "default"
		}
		if f.name == "" {
			continue
		}
		text, err := readBounded(f.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, false, err
		}
		found = profileOf(text, section, p) || found
	}
	return p, found, nil
}

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s: the file is larger than %d bytes; is it one of AWS?", name, maxFile)
	}
	return b, err
}

// addressing is the only nested setting that is read: addressing_style below s3, as the tools of AWS have it.
const addressing = "s3.addressing_style"

// profileOf adds the settings of a section to p. Lines with a blank at their beginning are nested below the line before
// them that has none. Of these only addressing is taken.
func profileOf(text []byte, section string, p map[string]string) (found bool) {
	in, above := false, ""
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		trimmed := strings.TrimSpace(line)
		switch {
		case trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';':
		case trimmed[0] == '[':
			name, _, _ := strings.Cut(trimmed[1:], "]")
			in, above = strings.Join(strings.Fields(name), " ") == section, ""
			found = found || in
		case in:
			k, v, ok := strings.Cut(trimmed, "=")
			if i := strings.Index(v, " #"); i >= 0 {
				v = v[:i]
			}
			k = strings.ToLower(strings.TrimSpace(k))
			nested := line[0] == ' ' || line[0] == '\t'
			if nested {
				k = above + "." + k
			} else {
				above = k
			}
			if ok && (!nested || k == addressing) {
				p[k] = strings.TrimSpace(v)
			}
		}
	}
	return found
}
