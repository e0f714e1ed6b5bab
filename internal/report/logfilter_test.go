package report_test

import (
	"strings"
	"testing"

	"github.com/orbweaver/orbweaver/internal/report"
)

func TestLogFilter(t *testing.T) {
	for _, c := range []struct {
		host, status string
		of           string
		code         int
		want         bool
	}{
		{"", "", "a.example", 200, true}, {"a.example", "", "a.example", 200, true},
		{"a.example", "", "b.a.example", 200, false}, {"*.a.example", "", "b.a.example", 200, true},
		{"*.A.example", "", "a.example", 200, true}, {"*.a.example", "", "ba.example", 200, false},
		{"", "404", "a", 404, true}, {"", "404", "a", 403, false}, {"", "-2", "a", -2, true},
		{"", "4xx", "a", 404, true}, {"", "4xx", "a", 500, false}, {"", "failed", "a", -2, true},
		{"", "failed", "a", 404, false}, {"a", "4xx", "b", 404, false},
	} {
		f, err := report.LogFilter(c.host, c.status)
		if err != nil || f(c.of, c.code) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, host := range []string{"a b", "*.", "192.0.2.0/24", "a.*.example", "(", "\n"} {
		_, err := report.LogFilter(host, "")
		if err == nil || !strings.Contains(err.Error(), "give a host") {
			t.Errorf("host %q: %v", host, err)
		}
	}
}
