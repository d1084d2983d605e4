import { saveKey } from "./settings.mjs";

/** The field for the API key: `ask()` shows it; `onKey` gets what somebody enters. */
export class KeyForm {
  constructor(form, onKey) {
    this.form = form;
    this.field = form.querySelector("input");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      form.hidden = true;
      saveKey(sessionStorage, this.field.value.trim());
      onKey(this.field.value.trim());
    });
  }

  ask() {
    this.form.hidden = false;
    this.field.focus();
    this.field.select();
  }
}
