// Browsers start no worker for a page that was opened from a folder. There its script runs in a hidden frame instead,
// which is all that searching needs. As with a worker, messages are copies and come later.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => setTimeout(() => this.tell(structuredClone(data)));
      this.ready = new Promise((resolve) => {
        const script = inside.document.createElement("script");
        script.src = new URL(address, location.href).href;
        script.onload = resolve;
        inside.document.body.append(script);
      });
    }

    tell(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }

    postMessage(given) {
      const inside = this.frame.contentWindow;
      const data = inside.structuredClone(given);
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
