package admin

import (
	"net/http"
	"net/netip"
	"net/url"

	"github.com/orbweaver/orbweaver/internal/cluster/orders"
)

// By is the header in which a caller tells its name: UTF-8, in which %XX stands for a byte.
const By = "Orbweaver-By"

// MaxBy bounds the name, in bytes.
const MaxBy = orders.MaxText

// EscapeBy returns a name as the header By has it: each byte that is not a plain character is %XX.
func EscapeBy(name string) string { return url.PathEscape(orders.Text(name)) }

// signed puts the name of the caller into the context of a call, for the orders that the call gives.
func signed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(orders.WithCaller(r.Context(), callerOf(r))))
	})
}

// callerOf returns who makes a request: the name in its header, and the address that the server sees. An address of
// loopback tells nothing, and so stands only where there is no name.
func callerOf(r *http.Request) string {
	name := r.Header.Get(By)
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	name = orders.Text(name)
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	addr := peer.Addr().Unmap()
	switch {
	case err != nil || name != "" && addr.IsLoopback():
		return name
	case name == "":
		return addr.String()
	}
	return withAddr(name, addr.String())
}

// withAddr returns a name with an address behind it, which is never cut off.
func withAddr(name, addr string) string {
	suffix := " from " + addr
	for len(orders.Text(name))+len(suffix) > orders.MaxText {
		runes := []rune(name)
		name = string(runes[:len(runes)-1])
	}
	return orders.Text(name) + suffix
}
