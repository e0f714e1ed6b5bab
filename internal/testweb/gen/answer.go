package gen

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

func (w *Web) Answer(dst []byte, q testweb.Query) ([]byte, testweb.Reply) {
	switch w.death(q.Host) {
	case hangs:
		return dst, testweb.Reply{Page: -1, Fault: testweb.HangAfter}
	case resets:
		return dst, testweb.Reply{Page: -1, Fault: testweb.ResetAfter}
	}
	b := w.pool.Get().(*builder)
	dst, r := w.route(dst, b, q)
	w.pool.Put(b)
	if w.fates.slowHost > 0 && w.trait(q.Host, traitSlow, w.fates.slowHost) {
		r.Wait += w.delay(q.Host, 0)
	}
	r.Rule, r.Denied = w.denies(q.Host, q.Target)
	return dst, r
}

// route answers a target on a host that responds.
func (w *Web) route(dst []byte, b *builder, q testweb.Query) ([]byte, testweb.Reply) {
	if !q.Secure && w.secure(q.Host) {
		b.text = append(w.appendName(append(b.text[:0], "https://"...), q.Host), q.Target...)
		return redirect(dst, q, 301, string(b.text))
	}
	if page, ok := w.parse(b, q.Host, q.Target); ok {
		return w.answerPage(dst, b, q, page)
	}
	if q.Target == "/robots.txt" {
		if text := w.robots(q.Host); text != "" {
			return respond(dst, q, 200, "text/plain; charset=utf-8", text)
		}
	}
	if w.texts != nil {
		return problem(dst, q, 404)
	}
	if rest, ok := strings.CutPrefix(q.Target, wayDir); ok {
		if to, status, ok := w.nextStep(b, rest); ok {
			return redirect(dst, q, status, to)
		}
	}
	if rest, ok := strings.CutPrefix(q.Target, loopDir); ok {
		if n, err := strconv.ParseUint(rest, 10, 32); err == nil {
			return redirect(dst, q, 302, loopDir+strconv.FormatUint(n^1, 10))
		}
	}
	if text, ok := w.sitemap(b, q.Host, q.Target); ok {
		return respond(dst, q, 200, "application/xml", text)
	}
	if text, depth, ok := w.trapPage(q.Host, q.Target); ok {
		dst, r := respond(dst, q, 200, htmlType, text)
		r.Trap = depth
		return dst, r
	}
	return problem(dst, q, 404)
}

const htmlType = "text/html; charset=utf-8"

// parse returns the page that a target names.
func (w *Web) parse(b *builder, host int64, target string) (page int64, ok bool) {
	if w.texts != nil {
		return w.texts.find(host, target)
	}
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

// answerPage appends the response with a page, or with the error or redirect of its fate.
func (w *Web) answerPage(dst []byte, b *builder, q testweb.Query, page int64) ([]byte, testweb.Reply) {
	f := fine
	from := w.source(q.Host)
	if w.fates.page[numFates-1] > 0 {
		f = w.fate(from, page)
		if status := f.status(w.hash(saltFate, page, from), q.Answered); status != 200 {
			return problem(dst, q, status)
		}
	}
	version := uint64(0)
	var said validators
	if w.changes != nil {
		p, at := w.process(q.Host, page), q.At.UnixNano()-w.changes.start
		last, _ := p.around(at)
		version, said = p.version(last), w.validatorsOf(p, at, last, q.Gzip)
		if f < gone && said.confirm(&q) {
			return said.notModified(dst, &q, page)
		}
	}
	var l layout
	if w.texts != nil {
		q.Gzip = false // given texts would have to be compressed for each response
	} else {
		l = w.compose(b, q.Host, page, version)
	}
	start := len(dst)
	dst = append(dst, "HTTP/1.1 200 OK\r\nServer: testweb\r\nContent-Type: text/html; charset=utf-8\r\n"...)
	dst = said.appendTo(dst)
	if q.Close {
		dst = append(dst, "Connection: close\r\n"...)
	}
	guess := l.size
	if q.Gzip || w.texts != nil {
		guess = 9999
	}
	if q.Gzip {
		dst = append(dst, "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n"...)
	}
	dst = append(dst, "Content-Length: "...)
	at := len(dst)
	dst = strconv.AppendInt(dst, int64(guess), 10)
	dst = append(dst, "\r\n\r\n"...)
	body := len(dst)
	switch {
	case w.texts != nil:
		dst = w.texts.AppendPage(dst, int64(w.division.first[q.Host])+page)
	case w.edited(q.Host, page):
		dst = w.appendEdited(dst, b, &l, q.Host, page, q.Gzip)
	case q.Gzip:
		dst = w.appendGzip(dst, b, &l)
	default:
		dst = w.appendPage(dst, b, &l)
	}
	if size := len(dst) - body; size != guess {
		// Only now the length is known. It usually has as many digits as the guess.
		if d := digits(size) - digits(guess); d != 0 {
			dst = append(dst, "      "[:max(d, 0)]...)
			copy(dst[body+d:], dst[body:body+size])
			body += d
			dst = dst[:body+size]
		}
		strconv.AppendInt(dst[at:at], int64(size), 10)
		copy(dst[body-4:], "\r\n\r\n")
	}
	if q.Head {
		dst = dst[:body]
	}
	r := testweb.Reply{Status: 200, HeadLen: body - start, Page: page, Coded: q.Gzip, Codable: w.texts == nil}
	if f >= slow {
		w.spoil(&r, f, w.hash(saltFate, page, from), len(dst)-start)
	}
	return dst, r
}

// status returns the status of the response for a page of this fate after `answered` earlier requests. h is random.
func (f fate) status(h uint64, answered int) int {
	switch {
	case f == failing && answered <= int(h&1):
		return 503
	case f == busy && answered == 0:
		return 429
	case f == gone:
		return 410
	case f == broken:
		return 500
	}
	return 200
}

// spoil sets how the response with a page is sent or fails. size is the length of the response.
func (w *Web) spoil(r *testweb.Reply, f fate, h uint64, size int) {
	switch f {
	case slow:
		r.Wait = time.Duration(200+below(h, 800)) * time.Millisecond
		r.Pace = time.Duration(200+below(h<<20, 800)) * time.Millisecond / time.Duration(size/1024+1)
		return
	case hanging:
		r.Fault = testweb.HangAfter
	case resetting:
		r.Fault = testweb.ResetAfter
	case truncated:
		r.Fault = testweb.CloseAfter
	default:
		return
	}
	r.Page = -1
	if f == truncated {
		r.Cut = r.HeadLen + int(below(h<<8, uint64(size-r.HeadLen)+1)) - 1
		r.Cut = max(r.Cut, r.HeadLen-1)
	} else if h&1 != 0 {
		r.Cut = int(below(h<<8, uint64(size)))
	}
}

// delay returns the time before the first byte from a slow host or page.
func (w *Web) delay(host, page int64) time.Duration {
	return time.Duration(200+below(w.hash(saltFate, host, page), 800)) * time.Millisecond
}

func digits(n int) (d int) {
	for d = 1; n > 9; d++ {
		n /= 10
	}
	return d
}

// problem appends a response with an error status.
func problem(dst []byte, q testweb.Query, status int) ([]byte, testweb.Reply) {
	text := http.StatusText(status)
	return respond(dst, q, status, htmlType, "<!DOCTYPE html>\n<title>"+text+"</title>\n<h1>"+text+"</h1>\n")
}

// redirect appends a redirect to a URL.
func redirect(dst []byte, q testweb.Query, status int, to string) ([]byte, testweb.Reply) {
	r := testweb.Reply{Status: status, Page: -1}
	return r.Respond(dst, q, htmlType, to, ""), r
}

// retryAfter is the Retry-After of a 429.
const retryAfter = time.Second

// respond appends a small response with a body.
func respond(dst []byte, q testweb.Query, status int, ctype, text string) ([]byte, testweb.Reply) {
	r := testweb.Reply{Status: status, Page: -1}
	if status == http.StatusTooManyRequests {
		r.RetryAfter = retryAfter
	}
	return r.Respond(dst, q, ctype, "", text), r
}
