package netns

import (
	"maps"
	"slices"
	"testing"
)

func TestEnviron(t *testing.T) {
	got := Environ([]string{"A=b", "HTTP_PROXY=p", "http_proxy=p", "All_Proxy=p", "PROXY=kept", "SSL_CERT_DIR=d",
		"SSL_CERT_FILE=old", "RES_OPTIONS=x"}, "/ca")
	want := []string{"A=b", "PROXY=kept", "SSL_CERT_FILE=/ca", "CURL_CA_BUNDLE=/ca", "REQUESTS_CA_BUNDLE=/ca",
		"NODE_EXTRA_CA_CERTS=/ca", "GIT_SSL_CAINFO=/ca"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestResolverFiles(t *testing.T) {
	got := resolverFiles("passwd: files ldap\n hosts: mymachines resolve dns\n# end", "box")
	want := map[string]string{
		"/etc/resolv.conf":   "nameserver 127.0.0.1\n",
		"/etc/nsswitch.conf": "passwd: files ldap\n# end\nhosts: files dns\n",
		"/etc/hosts":         "127.0.0.1 localhost\n::1 localhost\n127.0.0.1 box\n",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
