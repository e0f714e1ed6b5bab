package testweb

import (
	"fmt"
	"net/http"
	"time"
)

// DrippingSites returns n hosts, drip0.example and so on, whose responses never end. Every page first sends a link to
// its next page, and then one byte in each period `every`.
func DrippingSites(n int, every time.Duration) []Site {
	sites := make([]Site, n)
	for i := range sites {
		sites[i] = Site{Host: fmt.Sprintf("drip%d.example", i), Raw: func(c *RawConn, req *http.Request) bool {
			if req.URL.Path == "/robots.txt" {
				c.WriteString("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
				return true
			}
			var page int
			fmt.Sscanf(req.URL.Path, "/%d", &page) // the path of the first page has no number
			c.WriteString(head200 + fmt.Sprintf("Content-Length: 1000000\r\n\r\n<a href=\"/%d\">next</a>", page+1))
			for c.Wait(every) {
				c.WriteString(" ")
			}
			return false
		}}
	}
	return sites
}
