// Renders templates as Helm does, with the template engine that Helm uses, for charts that need nothing
// but it: go run helm_template.go FILE… < {"Values": …, "Release": …}
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"text/template"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	var given map[string]interface{}
	check(json.NewDecoder(os.Stdin).Decode(&given))
	for _, path := range os.Args[1:] {
		text, err := os.ReadFile(path)
		check(err)
		made, err := template.New(path).Option("missingkey=error").Parse(string(text))
		check(err)
		fmt.Println("---")
		check(made.Execute(os.Stdout, given))
	}
}
