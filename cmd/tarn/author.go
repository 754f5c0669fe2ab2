package main

import (
	"context"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"time"
)

// gitLimit is how long git may take to say who somebody is.
const gitLimit = 2 * time.Second

// fallbackAuthor is who commits where neither the request nor the options of
// the working folder say: the configuration, git's, else user@host.
func fallbackAuthor(ctx context.Context, k *call) string {
	if a := k.value("author"); a != "" {
		return a
	}
	if a := gitAuthor(ctx); a != "" {
		return a
	}
	name, host := "unknown", "localhost"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil && h != "" {
		host = h
	}
	return name + "@" + host
}

// gitAuthor is "Name <mail>" of git's configuration, "" without one.
func gitAuthor(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, gitLimit)
	defer cancel()
	get := func(key string) string {
		cmd := exec.CommandContext(ctx, "git", "config", "--get", key)
		cmd.Dir = "/" // never the configuration of a stranger's tree, nor a mount's folder
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	name := get("user.name")
	if mail := get("user.email"); name != "" && mail != "" {
		return name + " <" + mail + ">"
	}
	return name
}
