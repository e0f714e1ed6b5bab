// Package wake answers: how does a goroutine tell another one to look again?
package wake

// Up sends to c, which has room for one value, unless a value is there already. It does not block.
func Up(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
