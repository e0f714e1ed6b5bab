package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/orbweaver/orbweaver/internal/store/object"
	"github.com/orbweaver/orbweaver/internal/store/object/s3"
	"github.com/orbweaver/orbweaver/internal/testkit/must"
	"github.com/orbweaver/orbweaver/internal/testkit/testclock"
	"github.com/orbweaver/orbweaver/internal/testkit/teststore"
)

const session = "session/token+of=the-tests/0123456789"

// serve starts a server that answers as a test says.
func serve(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

// once makes each request once.
var once = object.Config{Tries: 1}

// TestAnswers: each answer has its reason, and no message has a secret, although the server sends all that it was sent.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   error
	}{
		{403, "AccessDenied", object.ErrDenied},
		{403, "", object.ErrDenied},
		{400, "ExpiredToken", object.ErrExpired},
		{403, "RequestTimeTooSkewed", object.ErrSkewed},
		{403, "InvalidAccessKeyId", object.ErrWrongKeys},
		{404, "XAdminUserNotFound", object.ErrWrongKeys},
		{403, "SignatureDoesNotMatch", object.ErrWrongKeys},
		{401, "", object.ErrWrongKeys},
		{400, "AuthorizationHeaderMalformed", object.ErrRegion},
		{301, "PermanentRedirect", object.ErrRegion},
		{307, "TemporaryRedirect", object.ErrRedirected},
		{302, "", object.ErrRedirected},
		{503, "SlowDown", object.ErrSlow},
		{429, "", object.ErrSlow},
		{500, "InternalError", object.ErrBroken},
		{502, "", object.ErrBroken},
		{501, "NotImplemented", object.ErrUnsupported},
		{400, "SomethingNew", object.ErrRefused},
	} {
		t.Run(fmt.Sprint(c.status, c.code), func(t *testing.T) {
			other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") })
			e := at(serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", other+r.URL.Path)
				w.WriteHeader(c.status)
				if c.code != "" {
					fmt.Fprintf(w, `<Error><Code>%s</Code><Message>you said %s %s %s %s</Message></Error>`, c.code,
						r.Header.Get("Authorization"), r.Header.Get("X-Amz-Security-Token"), secret,
						strings.Repeat("x", 100<<10))
				}
			}))
			e["AWS_SESSION_TOKEN"] = session
			s := open(t, "s3://bucket/p", e, s3.Options{}, once)
			_, err := s.List(t.Context(), "", "", 10)
			wantClean(t, err, c.want)
			_, err = s.Put(t.Context(), "a", strings.NewReader("x"), object.Condition{})
			wantClean(t, err, c.want)
			_, err = s.Read(t.Context(), "a", 0, 10)
			wantClean(t, err, c.want)
		})
	}
}

// wantClean checks an error and its text.
func wantClean(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
	if err == nil {
		return
	}
	text := err.Error()
	for _, s := range []string{secret, session, "\x1b", "X-Amz-Signature="} {
		if strings.Contains(text, s) {
			t.Errorf("the message has %q: %s", s, text)
		}
	}
	if len(text) > 1000 {
		t.Errorf("the message has %d bytes", len(text))
	}
}

// TestUnreachable opens stores at a closed port, at an unknown name, and at a server that does not speak S3.
func TestUnreachable(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed := l.Addr().String()
	must.Do(t, l.Close())
	html := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>hello</html>") })
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	defer tls.Close()
	tls.Config.ErrorLog = nil
	for where, want := range map[string]error{"http://" + closed: object.ErrAway,
		"http://no-such-host.invalid": object.ErrAway,
		tls.URL:                       object.ErrRefused, strings.Replace(html, "http:", "https:", 1): object.ErrAway} {
		_, err := open(t, "s3://bucket/p", at(where), s3.Options{}, once).Stat(t.Context(), "a")
		wantClean(t, err, want)
	}
	s := open(t, "s3://bucket/p", at(html), s3.Options{}, once)
	if _, err := s.List(t.Context(), "", "", 10); err != nil && !errors.Is(err, object.ErrAnswer) {
		t.Error(err)
	}
	if _, err := s.Put(t.Context(), "a", strings.NewReader("x"), object.Condition{}); err == nil {
		t.Error("a page of HTML is taken for a store")
	}
}

// TestHostileAnswers: answers that do not end, that are not what was asked for, or that are cut off.
func TestHostileAnswers(t *testing.T) {
	const good = "Mon, 30 Nov 2026 12:00:00 GMT"
	object5 := func(w http.ResponseWriter, header ...string) {
		w.Header().Set("Last-Modified", good)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
	}
	var requests atomic.Int64
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		do     func(ctx context.Context, s *object.Store) error
		want   error
	}{
		{"an endless list", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<ListBucketResult>")
			for range 1 << 20 {
				_, err := fmt.Fprint(w, "<Contents><Key>", strings.Repeat("x", 1000), "</Key></Contents>")
				if err != nil {
					return
				}
			}
		}, list, object.ErrAnswer},
		{"a list of empty pages", func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			fmt.Fprint(w, "<ListBucketResult><IsTruncated>true</IsTruncated>",
				"<NextContinuationToken>x</NextContinuationToken></ListBucketResult>")
		}, list, object.ErrAnswer},
		{"a list of another prefix", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<ListBucketResult><Contents><Key>etc/passwd</Key></Contents></ListBucketResult>")
		}, list, object.ErrAnswer},
		{"a range that is ignored", func(w http.ResponseWriter, _ *http.Request) {
			object5(w)
			fmt.Fprint(w, "0123456789")
		}, read, object.ErrAnswer},
		{"another range", func(w http.ResponseWriter, _ *http.Request) {
			object5(w, "Content-Range", "bytes 0-4/10")
			w.WriteHeader(206)
			fmt.Fprint(w, "01234")
		}, read, object.ErrAnswer},
		{"more than was asked for", func(w http.ResponseWriter, _ *http.Request) {
			object5(w, "Content-Range", "bytes 5-9/10", "Content-Length", "1000000")
			w.WriteHeader(206)
			fmt.Fprint(w, strings.Repeat("x", 1000000))
		}, read, object.ErrAnswer},
		{"an answer that ends early", func(w http.ResponseWriter, _ *http.Request) {
			object5(w, "Content-Range", "bytes 5-9/10", "Content-Length", "5")
			w.WriteHeader(206)
			fmt.Fprint(w, "56")
		}, read, object.ErrAway},
		{"a length that is none", func(w http.ResponseWriter, r *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: -7\r\nLast-Modified: "+good+"\r\n\r\n")
		}, stat, object.ErrAway},
		{"endless headers", func(w http.ResponseWriter, r *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\n")
			for range 1 << 20 {
				if _, err := fmt.Fprint(c, "X-A: ", strings.Repeat("x", 1000), "\r\n"); err != nil {
					return
				}
			}
		}, stat, object.ErrAway},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, "s3://bucket/p", at(serve(t, c.answer)), s3.Options{}, once)
			wantClean(t, c.do(t.Context(), s), c.want)
		})
	}
	if n := requests.Load(); n > 25 {
		t.Errorf("a list of empty pages took %d requests", n)
	}
}

func list(ctx context.Context, s *object.Store) error {
	_, err := s.List(ctx, "", "", 100)
	return err
}

func read(ctx context.Context, s *object.Store) error {
	_, err := s.Read(ctx, "a", 5, 5)
	return err
}

func stat(ctx context.Context, s *object.Store) error { _, err := s.Stat(ctx, "a"); return err }

// TestOKWithError: the store answers 200 to the end of an upload in parts, and has an error in the body.
func TestOKWithError(t *testing.T) {
	fake := httputil.NewSingleHostReverseProxy(mustURL(t, fakeServer(t)))
	var failed atomic.Int64
	front := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") && failed.Add(1) <= 2 {
			fmt.Fprint(w, "<?xml version=\"1.0\"?>\n<Error><Code>InternalError</Code><Message>again</Message></Error>")
			return
		}
		fake.ServeHTTP(w, r)
	})
	s := open(t, "s3://bucket/p", at(front), s3.Options{}, teststore.Config)
	data := make([]byte, teststore.PartSize+1)
	i := must.Get(s.Put(t.Context(), "a", bytes.NewReader(data), object.Condition{IfAbsent: true}))(t)
	if i.Size != int64(len(data)) || failed.Load() < 3 {
		t.Errorf("%+v after %d requests", i, failed.Load())
	}
}

func mustURL(t *testing.T, s string) *url.URL {
	t.Helper()
	return must.Get(url.Parse(s))(t)
}

// TestKeys: where credentials come from.
func TestKeys(t *testing.T) {
	var used atomic.Pointer[string]
	endpoint := serve(t, func(w http.ResponseWriter, r *http.Request) {
		v := r.Header.Get("Authorization") + " " + r.Header.Get("X-Amz-Security-Token")
		used.Store(&v)
		w.WriteHeader(404)
	})
	given := fmt.Sprintf(`{"Code":"Success","AccessKeyId":"AKIDROLE","SecretAccessKey":%q,"Token":%q,"Expiration":%q}`,
		secret, session, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	service := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/latest/api/token" && r.Method == http.MethodPut:
			fmt.Fprint(w, "imds-token")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") == "imds-token" && strings.HasSuffix(r.URL.Path, "credentials/"):
			fmt.Fprint(w, "my-role")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") == "imds-token" && strings.HasSuffix(r.URL.Path, "/my-role"),
			r.URL.Path == "/container" && r.Header.Get("Authorization") == "container-token":
			fmt.Fprint(w, given)
		case r.URL.Path == "/sts" && r.FormValue("WebIdentityToken") == "web-token" &&
			r.FormValue("RoleArn") == "arn:role":
			fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>
				<AccessKeyId>AKIDROLE</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><SessionToken>%s</SessionToken>
				<Expiration>2030-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
				</AssumeRoleWithWebIdentityResponse>`, secret, session)
		default:
			w.WriteHeader(403)
			fmt.Fprint(w, secret)
		}
	})
	home := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(home, ".aws"), 0o755))
	write := func(name, text string) string {
		name = filepath.Join(home, name)
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	write(".aws/credentials", "[default]\naws_access_key_id = AKIDDEFAULT\naws_secret_access_key = "+secret+
		"\n\n[other]\naws_access_key_id=AKIDOTHER # mine\naws_secret_access_key="+
		secret+"\naws_session_token="+session+"\n")
	write(".aws/config", "[default]\nregion = eu-central-1\ns3 =\n  aws_access_key_id = NESTED\n"+
		"[profile  other]\nregion=eu-west-3\n"+
		"[profile sso]\nsso_session = corp\n[profile empty]\nregion = eu-west-1\n")
	token, containerToken := write("token", "web-token\n"), write("container", "container-token")
	for _, c := range []struct {
		name string
		env  env
		want string // in the header of the request
		err  string
	}{
		{"variables", env{"AWS_ACCESS_KEY_ID": "AKIDENV", "AWS_SECRET_ACCESS_KEY": secret, "HOME": home},
			"=AKIDENV/*/eu-central-1/", ""},
		{"a region", env{"AWS_ACCESS_KEY_ID": "AKIDENV", "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": "us-west-2"},
			"=AKIDENV/*/us-west-2/", ""},
		{"half", env{"AWS_ACCESS_KEY_ID": "AKIDENV", "HOME": home}, "", "set both"},
		{"the default profile", env{"HOME": home}, "=AKIDDEFAULT/*/eu-central-1/", ""},
		{"a profile", env{"HOME": home, "AWS_PROFILE": "other"}, "=AKIDOTHER/*/eu-west-3/*" + session, ""},
		{"files by name", env{"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(home, ".aws/credentials"),
			"AWS_PROFILE": "other"},
			"=AKIDOTHER/*/us-east-1/*" + session, ""},
		{"sso", env{"HOME": home, "AWS_PROFILE": "sso"}, "", "export-credentials"},
		{"an empty profile", env{"HOME": home, "AWS_PROFILE": "empty"}, "", "has no aws_access_key_id"},
		{"none", env{"AWS_EC2_METADATA_DISABLED": "true"}, "", "set AWS_ACCESS_KEY_ID"},
		{"a machine", env{"AWS_EC2_METADATA_SERVICE_ENDPOINT": service}, "=AKIDROLE/*" + session, ""},
		{"a machine without a role", env{"AWS_EC2_METADATA_SERVICE_ENDPOINT": service + "/none"}, "",
			"it answered 403"},
		{"a container", env{"AWS_CONTAINER_CREDENTIALS_FULL_URI": service + "/container",
			"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": containerToken}, "=AKIDROLE/*" + session, ""},
		{"a container elsewhere", env{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://192.0.2.1/x"}, "", "give https"},
		{"a web identity", env{"AWS_WEB_IDENTITY_TOKEN_FILE": token, "AWS_ROLE_ARN": "arn:role",
			"AWS_ENDPOINT_URL_STS": service + "/sts"}, "=AKIDROLE/*" + session, ""},
		{"a wrong web identity", env{"AWS_WEB_IDENTITY_TOKEN_FILE": containerToken, "AWS_ROLE_ARN": "arn:role",
			"AWS_ENDPOINT_URL_STS": service + "/sts"}, "", "it answered 403"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.env["AWS_ENDPOINT_URL"] = endpoint
			none := ""
			used.Store(&none)
			_, err := open(t, "s3://bucket/p", c.env, s3.Options{}, once).Stat(t.Context(), "a")
			if c.err != "" {
				wantClean(t, err, object.ErrNoKeys)
				if !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q", err, c.err)
				}
				return
			}
			wantClean(t, err, object.ErrNotFound)
			rest := *used.Load()
			for part := range strings.SplitSeq(c.want, "*") {
				_, after, ok := strings.Cut(rest, part)
				if !ok {
					t.Errorf("the request has %q, want %q", *used.Load(), c.want)
				}
				rest = after
			}
		})
	}
}

// TestOpenRefuses: what is wrong with a URL or with settings is said.
func TestOpenRefuses(t *testing.T) {
	for _, c := range []struct {
		url  string
		env  env
		o    s3.Options
		want string
	}{
		{"s3:///p", env{}, s3.Options{}, "names no bucket"},
		{"s3://u:p@bucket/p", env{}, s3.Options{}, "user name"},
		{"s3://bucket/p?x=y", env{}, s3.Options{}, "more than a bucket"},
		{"s3://ab/p", env{}, s3.Options{}, "\"ab\" cannot be a bucket: a name has 3 to 63"},
		{"s3://" + strings.Repeat("b", 64), env{}, s3.Options{}, "cannot be a bucket"},
		{"s3://-bucket-", env{}, s3.Options{}, "cannot be a bucket"},
		{"s3://192.168.0.1/p", env{}, s3.Options{}, "cannot be a bucket"},
		{"s3://bucket/../x", env{}, s3.Options{}, "the prefix"},
		{"s3://bucket", env{"AWS_ENDPOINT_URL": "http://u:p%20w@host"}, s3.Options{}, "user name"},
		{"s3://bucket", env{"AWS_ENDPOINT_URL": "store:9000"}, s3.Options{}, "give http://"},
		{"s3://bucket", env{"AWS_ENDPOINT_URL": "http://store/path"}, s3.Options{}, "without a path"},
		{"s3://bucket", env{"AWS_PROFILE": "none", "HOME": "/nowhere"}, s3.Options{}, "has a profile"},
		{"s3://bucket", env{"AWS_CA_BUNDLE": "/nowhere"}, s3.Options{}, "AWS_CA_BUNDLE"},
		{"s3://bucket", env{}, s3.Options{Encryption: "rot13"}, "give AES256"},
		{"s3://bucket", env{}, s3.Options{Key: "k"}, "aws:kms"},
		{"s3://bucket", env{}, s3.Options{Retention: "COMPLIANCE"}, "for which it lasts"},
		{"s3://bucket", env{}, s3.Options{Retention: "x", Retain: time.Hour}, "give GOVERNANCE"},
	} {
		_, err := s3.Open(mustURL(t, c.url), c.env, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s %v: error %v, want %q", c.url, c.env, err, c.want)
		}
	}
}

// TestHeaders: encryption and retention are asked for; not so for objects that change.
func TestHeaders(t *testing.T) {
	var seen atomic.Pointer[http.Header]
	e := at(serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			h := r.Header.Clone()
			seen.Store(&h)
		}
		w.WriteHeader(404)
	}))
	b := must.Get(s3.Open(mustURL(t, "s3://bucket/p"), e, s3.Options{Encryption: "aws:kms", Key: "key-id",
		Retention: "COMPLIANCE", Retain: 24 * time.Hour, Class: "STANDARD_IA",
		Clock: testclock.At(time.Date(2030, 1, 1, 3, 4, 5, 6, time.UTC))}))(t)
	sum := object.Sum{CRC32C: "AAAAAA=="}
	for _, c := range []struct {
		when object.Condition
		want map[string]string
	}{
		{object.Condition{IfAbsent: true}, map[string]string{"If-None-Match": "*", "X-Amz-Checksum-Crc32c": "AAAAAA==",
			"X-Amz-Server-Side-Encryption": "aws:kms", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": "key-id",
			"X-Amz-Storage-Class":    "STANDARD_IA",
			"X-Amz-Object-Lock-Mode": "COMPLIANCE", "X-Amz-Object-Lock-Retain-Until-Date": "2030-01-02T03:04:05Z"}},
		{object.Condition{IfTag: "abc", Mutable: true}, map[string]string{"If-Match": `"abc"`, "If-None-Match": "",
			"X-Amz-Server-Side-Encryption": "aws:kms", "X-Amz-Object-Lock-Mode": ""}},
	} {
		err := b.Put(t.Context(), "a", strings.NewReader("x"), sum, c.when)
		wantClean(t, err, object.ErrNotFound)
		for name, want := range c.want {
			if got := seen.Load().Get(name); got != want {
				t.Errorf("%+v: %s is %q, want %q", c.when, name, got, want)
			}
		}
	}
}
