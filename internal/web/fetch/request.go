package fetch

import (
	"bytes"
	"encoding/base64"
	"net/url"
	"strings"
)

// request returns the bytes to send and sets r.Request to the bytes to keep.
func (f *Fetcher) request(req *Request, t *target, r *Response) (send []byte, err error) {
	uri, auth := req.URL.RequestURI(), ""
	if f.dialer.mode == httpProxy && !t.tls {
		uri = req.URL.Origin() + uri
		auth = f.dialer.auth
	}
	r.request = newBuffer(len(uri) + 512)
	b := r.request.b[:0]
	b = append(b, "GET "...)
	b = appendTarget(b, uri)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = appendTarget(b, req.URL.Authority())
	b = append(b, "\r\n"...)
	var hidden [][2]int // where the values of secret fields are in b
	add := func(d [2]string, secret bool) {
		if b = appendField(b, d); secret {
			hidden = append(hidden, [2]int{len(b) - len("\r\n") - len(d[1]), len(b) - len("\r\n")})
		}
	}
	c := &f.cfg
	for _, d := range [...][2]string{
		{"User-Agent", c.UserAgent}, {"From", c.From}, {"Accept", c.Accept},
		{"Accept-Language", c.AcceptLanguage}, {"Accept-Encoding", c.AcceptEncoding},
	} {
		if d[1] != "" && !names(c.Header, d[0]) && !names(c.Secret, d[0]) && !req.names(d[0]) {
			add(d, false)
		}
	}
	for _, d := range c.Header {
		if !names(c.Secret, d[0]) && !req.names(d[0]) {
			add(d, false)
		}
	}
	for _, d := range c.Secret {
		if !req.names(d[0]) {
			add(d, true)
		}
	}
	check := func(d [2]string) error {
		err := CheckField(d)
		if err != nil {
			r.request.release()
			r.request = nil
		}
		return err
	}
	for _, d := range req.Header {
		if err := check(d); err != nil {
			return nil, err
		}
		if !names(req.Secret, d[0]) {
			add(d, false)
		}
	}
	for _, d := range req.Secret {
		if err := check(d); err != nil {
			return nil, err
		}
		add(d, true)
	}
	for _, d := range req.If.fields() {
		if d[1] == "" || names(c.Header, d[0]) || names(c.Secret, d[0]) || req.names(d[0]) {
			continue
		}
		if err := check(d); err != nil {
			return nil, err
		}
		add(d, false)
	}
	b = append(b, "Connection: keep-alive\r\n"...)
	if auth != "" {
		send = append(bytes.Clone(b), "Proxy-Authorization: "+auth+"\r\n\r\n"...)
	}
	b = append(b, "\r\n"...)
	if cap(b) > len(r.request.b) { // append has moved it
		r.request.release()
		r.request = nil
	}
	if auth == "" {
		send = b
	}
	if r.Request = b; hidden != nil {
		r.Request = redact(b, hidden)
	}
	return send, nil
}

// redact returns a copy of b with Redacted in the place of the hidden parts.
func redact(b []byte, hidden [][2]int) []byte {
	kept, from := make([]byte, 0, len(b)+len(hidden)*len(Redacted)), 0
	for _, h := range hidden {
		kept = append(append(kept, b[from:h[0]]...), Redacted...)
		from = h[1]
	}
	return append(kept, b[from:]...)
}

// names reports whether the request has a field of its own with a name.
func (r *Request) names(name string) bool { return names(r.Header, name) || names(r.Secret, name) }

func names(fields [][2]string, name string) bool {
	for i := range fields {
		if strings.EqualFold(fields[i][0], name) {
			return true
		}
	}
	return false
}

func appendField(b []byte, f [2]string) []byte {
	b = append(b, f[0]...)
	b = append(b, ": "...)
	b = append(b, f[1]...)
	return append(b, "\r\n"...)
}

// appendTarget appends s with bytes escaped that would end the request line early. A canonical URL
// has none, but a request line must not depend on that.
func appendTarget(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == 0x7f {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return b
}

func basicAuth(u *url.Userinfo) string {
	if u == nil {
		return ""
	}
	pass, _ := u.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+pass))
}
