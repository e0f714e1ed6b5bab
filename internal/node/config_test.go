package node

import (
	"strings"
	"testing"
)

// TestSeedWithCredentials: a seed's credentials would not be sent, so it is
// refused, and the message does not repeat them.
func TestSeedWithCredentials(t *testing.T) {
	for _, s := range []string{"http://user:secret@a.example/", "user:secret@a.example",
		"https://secret@a.example/x?y"} {
		_, err := ParseSeed(s)
		if err == nil || !strings.Contains(err.Error(), "does not send") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"http://a.example/@b", "a.example/?x=u:p@b", "http://a.example#@"} {
		if _, err := ParseSeed(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
}
