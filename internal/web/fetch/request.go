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
	c := &f.cfg
	for _, d := range [...][2]string{
		{"User-Agent", c.UserAgent}, {"From", c.From}, {"Accept", c.Accept},
		{"Accept-Language", c.AcceptLanguage}, {"Accept-Encoding", c.AcceptEncoding},
	} {
		if d[1] != "" && !names(c.Header, d[0]) && !names(req.Header, d[0]) {
			b = appendField(b, d)
		}
	}
	for _, d := range c.Header {
		if !names(req.Header, d[0]) {
			b = appendField(b, d)
		}
	}
	for _, d := range req.Header {
		if err := checkField(d); err != nil {
			r.request.release()
			r.request = nil
			return nil, err
		}
		b = appendField(b, d)
	}
	for _, d := range req.If.fields() {
		if d[1] == "" || names(c.Header, d[0]) || names(req.Header, d[0]) {
			continue
		}
		if err := checkField(d); err != nil {
			r.request.release()
			r.request = nil
			return nil, err
		}
		b = appendField(b, d)
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
	r.Request = b
	if auth == "" {
		send = b
	}
	return send, nil
}

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
