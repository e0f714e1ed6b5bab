package rpc

import (
	"net"
	"strconv"

	"github.com/orbweaver/orbweaver/internal/web/weburl"
)

// CheckAddress returns ErrMalformed unless addr is a host and a port.
func CheckAddress(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || len(addr) > maxAddress {
		return malformed("address %.64q", addr)
	}
	if p, err := strconv.ParseUint(port, 10, 16); err != nil || p == 0 {
		return malformed("address %.64q", addr)
	}
	return nil
}

// CheckCapacity returns ErrMalformed unless c may be the capacity of an agent.
func CheckCapacity(c float64) error {
	if !(c > 0 && c <= maxCapacity) { // also refuses NaN
		return malformed("capacity %v", c)
	}
	return nil
}

// CheckSettings returns ErrMalformed if there are too many settings, or one is too long.
func CheckSettings(settings map[string]string) error {
	if len(settings) > maxSettings {
		return malformed("%d settings", len(settings))
	}
	for k, v := range settings {
		if len(k) > maxSetting || len(v) > maxSetting {
			return malformed("setting %.64q", k)
		}
	}
	return nil
}

// CheckHosts returns ErrMalformed unless there are 1 to MaxHosts hosts, each in its canonical form.
func CheckHosts(hosts []string) error {
	if len(hosts) == 0 || len(hosts) > MaxHosts {
		return malformed("%d hosts", len(hosts))
	}
	for _, h := range hosts {
		if err := checkHost(h); err != nil {
			return err
		}
	}
	return nil
}

// CheckBatch returns ErrTooLarge if b has more than MaxData octets.
func CheckBatch(b []byte) error {
	if len(b) > MaxData {
		return ErrTooLarge
	}
	return nil
}

// checkHost returns an error unless host is a canonical host name.
func checkHost(host string) error {
	if len(host) == 0 || len(host) > maxHost {
		return malformed("host %.64q", host)
	}
	u, err := weburl.Parse("http://" + host + "/")
	if err != nil || u.Host() != host {
		return malformed("host %.64q", host)
	}
	return nil
}

// CheckRecords returns an error if b cannot be so many records.
func CheckRecords(count uint32, b []byte) error {
	if len(b) > MaxData {
		return ErrTooLarge
	}
	if count == 0 || uint64(count) > uint64(len(b)) { // a record has at least one octet
		return Malformedf("%d records in %d octets", count, len(b))
	}
	return nil
}
