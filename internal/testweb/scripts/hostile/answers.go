package hostile

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/orbweaver/orbweaver/internal/testweb"
)

// made is the Last-Modified of the sound.
var made = time.Date(2026, 6, 12, 7, 0, 0, 0, time.UTC)

// answers adds what the pages ask for.
func answers(mux *http.ServeMux) {
	mux.HandleFunc("/scroll.json", func(rw http.ResponseWriter, req *http.Request) {
		from, _ := strconv.Atoi(req.FormValue("from")) // a page that says nothing begins at 0
		var items []string
		for i := range 20 {
			items = append(items, "item "+strconv.Itoa(from+i))
		}
		rw.Header().Set("Content-Type", "application/json")
		json.NewEncoder(rw).Encode(items)
	})
	mux.HandleFunc("/poll", func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "{}") })
	mux.HandleFunc("/form", func(rw http.ResponseWriter, _ *http.Request) { say(rw, document("redirect-form", "80")) })
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	mux.HandleFunc("/stream", func(rw http.ResponseWriter, req *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		repeat(rw, req, "data: and more\n\n")
	})
	mux.HandleFunc("/endless.bin", func(rw http.ResponseWriter, req *http.Request) {
		attach(rw)
		repeat(rw, req, strings.Repeat("x", 4096))
	})
	mux.HandleFunc("/download.bin", func(rw http.ResponseWriter, _ *http.Request) {
		attach(rw)
		fmt.Fprint(rw, strings.Repeat("x", 1000))
	})
	mux.HandleFunc("/password", password)
	mux.HandleFunc("/password.png", password)
	mux.HandleFunc("/to-private", func(rw http.ResponseWriter, req *http.Request) {
		http.Redirect(rw, req, "http://127.0.0.1:"+port(req)+"/private-redirect", http.StatusFound)
	})
	mux.HandleFunc("/to-metadata", func(rw http.ResponseWriter, req *http.Request) {
		http.Redirect(rw, req, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	})
	mux.HandleFunc("/trap/", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(rw, "let n = 0;\nself.oninstall = () => self.skipWaiting();\n"+
			"setInterval(() => fetch('/poll?worker=' + n++).catch(() => {}), 5);\n")
	})
	mux.HandleFunc("/long-header", func(rw http.ResponseWriter, _ *http.Request) {
		for i := range 60 {
			rw.Header().Set(fmt.Sprintf("X-Long-%d", i), strings.Repeat("x", 1000))
		}
		fmt.Fprint(rw, "long")
	})
	mux.HandleFunc("/bodies/", coded)
	mux.HandleFunc("/cached.txt", func(rw http.ResponseWriter, req *http.Request) {
		rw.Header().Set("Cache-Control", "max-age=60")
		rw.Header().Set("ETag", `"1"`)
		if req.Header.Get("If-None-Match") == `"1"` {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(rw, "not changed")
	})
	sound := sync.OnceValue(wave)
	mux.HandleFunc("/sound.wav", func(rw http.ResponseWriter, req *http.Request) {
		http.ServeContent(rw, req, "sound.wav", made, bytes.NewReader(sound()))
	})
}

func attach(rw http.ResponseWriter) {
	rw.Header().Set("Content-Type", "application/octet-stream")
	rw.Header().Set("Content-Disposition", `attachment; filename="file.bin"`)
}

func password(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("WWW-Authenticate", `Basic realm="who are you?"`)
	rw.WriteHeader(http.StatusUnauthorized)
}

// repeat sends text ten times a second, until the client closes.
func repeat(rw http.ResponseWriter, req *http.Request, text string) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	flush := http.NewResponseController(rw)
	for {
		if _, err := io.WriteString(rw, text); err != nil || flush.Flush() != nil {
			return
		}
		select {
		case <-req.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// socket opens a WebSocket (RFC 6455, 4.2.2) and sends a text ten times a second, until the client closes.
func socket(c *testweb.RawConn, req *http.Request) bool {
	key := req.Header.Get("Sec-WebSocket-Key")
	if key == "" {
		c.WriteString("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		return false
	}
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	c.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(sum[:]) + "\r\n\r\n")
	// A whole text frame without a mask (RFC 6455, 5.2).
	const text = "and more"
	frame := string(append([]byte{0x81, byte(len(text))}, text...))
	for c.WriteString(frame) == nil && c.Wait(100*time.Millisecond) {
	}
	return false
}

// codedText is the text of the files below /bodies/.
var codedText = []byte(strings.Repeat("decoded ", 1000))

// coded answers in the coding that the path names, whatever the client accepts.
func coded(rw http.ResponseWriter, req *http.Request) {
	name := path.Base(req.URL.Path)
	var b bytes.Buffer
	var w io.WriteCloser
	switch name {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w, _ = zlib.NewWriterLevel(&b, flate.BestSpeed) // the level exists
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1)) // the option is valid
	default:
		http.NotFound(rw, req)
		return
	}
	w.Write(codedText)
	w.Close()
	rw.Header().Set("Content-Type", "text/plain")
	rw.Header().Set("Content-Encoding", name)
	rw.Write(b.Bytes())
}

// wave returns 10 s of silence as a file of sound.
func wave() []byte {
	const rate, seconds = 22050, 10
	n := uint32(2 * rate * seconds)
	b := append([]byte("RIFF"), 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(b[4:], 36+n)
	b = append(b, "WAVEfmt "...)
	for _, v := range []any{uint32(16), uint16(1), uint16(1), uint32(rate), uint32(2 * rate), uint16(2), uint16(16)} {
		b, _ = binary.Append(b, binary.LittleEndian, v) // the sizes are fixed
	}
	b = binary.LittleEndian.AppendUint32(append(b, "data"...), n)
	return append(b, make([]byte, n)...)
}

// others serves the host whose files need a preflight: /cors allows it, and /refused does not.
func others() http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/cors" {
			h := rw.Header()
			h.Set("Access-Control-Allow-Origin", req.Header.Get("Origin"))
			h.Set("Access-Control-Allow-Headers", "X-Asked")
			h.Set("Vary", "Origin")
		}
		switch {
		case req.Method == http.MethodOptions:
			rw.WriteHeader(http.StatusNoContent)
		case req.URL.Path == "/cors" && req.Header.Get("X-Asked") == "yes":
			fmt.Fprint(rw, "allowed")
		default:
			http.Error(rw, "not allowed", http.StatusForbidden)
		}
	})
}
