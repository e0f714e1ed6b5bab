package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/orbweaver/orbweaver/internal/input"
)

// LogFilter returns whether a visit of a host with a code is one of a host or a domain, and has a status: a code such
// as 404 or -2, a class such as 4xx, or failed. Empty strings stand for all. The error is for people.
func LogFilter(host, status string) (func(host string, code int) bool, error) {
	var wanted string
	if host != "" {
		about, wide, err := input.About(host)
		if err != nil || wide && !strings.HasPrefix(about, "*.") {
			return nil, fmt.Errorf("host %.100q: give a host such as www.example.org, or a domain such as "+
				"*.example.org", host)
		}
		wanted = about
	}
	domain, below := strings.CutPrefix(wanted, "*.")
	ofHost := func(host string) bool {
		return domain == "" || host == domain || below && strings.HasSuffix(host, "."+domain)
	}
	var ofCode func(code int) bool
	class, isClass := strings.CutSuffix(status, "xx")
	n, err := strconv.Atoi(status)
	switch {
	case status == "":
		ofCode = func(int) bool { return true }
	case status == "failed":
		ofCode = func(code int) bool { return code <= 0 }
	case isClass && len(class) == 1 && class >= "1" && class <= "5":
		ofCode = func(code int) bool { return code/100 == int(class[0]-'0') }
	case err == nil:
		ofCode = func(code int) bool { return code == n }
	default:
		return nil, fmt.Errorf("status %.40q: give a code such as 404 or -2, a class such as 4xx, or failed", status)
	}
	return func(host string, code int) bool { return ofHost(host) && ofCode(code) }, nil
}
