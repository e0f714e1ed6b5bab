package report

import "testing"

func TestBroken(t *testing.T) {
	for _, tt := range []struct {
		code int
		note string
		want bool
	}{
		{200, "", false}, {304, "", false}, {301, "", false}, {404, "", true}, {500, "", true}, {403, "", true},
		{301, "too-many-redirects", true}, {302, "bad-redirect", true},
		{CodeTooManyRetries, "error:dns", true}, {CodeTooManyRetries, "error:tls", true}, {CodeDNS, "error:dns", true},
		{CodeRobotsDenied, "rule:x", false}, {CodeRobotsUnfetchable, "error:robots-unreachable", true},
		{CodeBlockedByUser, "error:refused-address", false}, {CodeQuota, "", false},
		{CodeTooManyRetries, "error:proxy", true}, {200, "error:timeout-idle", false}, {CodeUnattempted, "error:dns",
			false},
	} {
		l := Line{Code: tt.code, Notes: []string{"5t", tt.note}}
		if got := l.Broken(); got != tt.want {
			t.Errorf("%d %s: %v, want %v", tt.code, tt.note, got, tt.want)
		}
	}
}
