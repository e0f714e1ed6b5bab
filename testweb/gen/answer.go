package gen

import (
	"strconv"

	"github.com/orbweaver/orbweaver/testweb"
)

// Answer appends the response to a request.
func (w *Web) Answer(dst []byte, q testweb.Query) ([]byte, testweb.Reply) {
	b := w.pool.Get().(*builder)
	defer w.pool.Put(b)
	if page, ok := w.parse(b, q.Host, q.Target); ok {
		return w.answerPage(dst, b, q, page)
	}
	if q.Target == "/robots.txt" {
		return w.respond(dst, q, 200, "text/plain", "User-agent: *\nDisallow:\n")
	}
	return w.respond(dst, q, 404, "text/html; charset=utf-8", "<!DOCTYPE html>\n<title>Not found</title>\n<h1>Not found</h1>\n")
}

// parse is the page that a target names.
func (w *Web) parse(b *builder, host int64, target string) (page int64, ok bool) {
	if target == "/" {
		return 0, true
	}
	if len(target) > 128 || len(target) < 3 || target[0] != '/' {
		return 0, false
	}
	end := len(target)
	if target[end-1] == 'l' && end > 5 {
		end -= 5
	}
	from := end
	for from > 0 && target[from-1]-'0' <= 9 {
		from--
	}
	n, err := strconv.ParseInt(target[from:end], 10, 64)
	if err != nil || n < 1 || n >= w.Pages(host) {
		return 0, false
	}
	b.ids = b.ids[:0]
	b.path(w, host, n)
	b.text = w.kit.appendText(b.text[:0], b.ids)
	return n, string(b.text) == target[1:]
}

// answerPage appends the response with a page.
func (w *Web) answerPage(dst []byte, b *builder, q testweb.Query, page int64) ([]byte, testweb.Reply) {
	l := w.compose(b, q.Host, page)
	start := len(dst)
	dst = append(dst, "HTTP/1.1 200 OK\r\nServer: testweb\r\nContent-Type: text/html; charset=utf-8\r\n"...)
	if q.Close {
		dst = append(dst, "Connection: close\r\n"...)
	}
	guess := l.size
	if q.Gzip {
		dst = append(dst, "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n"...)
		guess = 9999
	}
	dst = append(dst, "Content-Length: "...)
	at := len(dst)
	dst = strconv.AppendInt(dst, int64(guess), 10)
	dst = append(dst, "\r\n\r\n"...)
	body := len(dst)
	if q.Gzip {
		dst = w.appendGzip(dst, b, &l)
		// The length is known only now; it mostly has the digits that were guessed.
		size := len(dst) - body
		if d := digits(size) - digits(guess); d != 0 {
			dst = append(dst, "      "[:max(d, 0)]...)
			copy(dst[body+d:], dst[body:body+size])
			body += d
			dst = dst[:body+size]
		}
		strconv.AppendInt(dst[at:at], int64(size), 10)
		copy(dst[body-4:], "\r\n\r\n")
	} else {
		dst = w.appendPage(dst, b, &l)
	}
	if q.Head {
		dst = dst[:body]
	}
	return dst, testweb.Reply{Status: 200, HeadLen: body - start, Page: page}
}

func digits(n int) (d int) {
	for d = 1; n > 9; d++ {
		n /= 10
	}
	return d
}

// respond appends a small response.
func (w *Web) respond(dst []byte, q testweb.Query, status int, kind, text string) ([]byte, testweb.Reply) {
	start := len(dst)
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, " "...)
	dst = append(dst, reasons[status]...)
	dst = append(dst, "\r\nServer: testweb\r\nContent-Type: "...)
	dst = append(dst, kind...)
	if q.Close {
		dst = append(dst, "\r\nConnection: close"...)
	}
	dst = append(dst, "\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(text)), 10)
	dst = append(dst, "\r\n\r\n"...)
	head := len(dst) - start
	if !q.Head {
		dst = append(dst, text...)
	}
	return dst, testweb.Reply{Status: status, HeadLen: head, Page: -1}
}

var reasons = map[int]string{200: "OK", 404: "Not Found"}
