package main

// The program runs on a machine that has nothing else, such as a container without a system. There
// it uses its own time zones and its own certificate authorities (those of Mozilla).
import (
	_ "time/tzdata"

	_ "golang.org/x/crypto/x509roots/fallback"
)
