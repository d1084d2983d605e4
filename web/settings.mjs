/** What the page remembers: settings for good, the key for as long as the tab is open. */

const defaults = {
  interim: true, words: true, endpointing: "", max_segment: "", long_silence: "", pace: "fast",
};
const settingsName = "tutti.settings";
const keyName = "tutti.key";

export function loadSettings(storage) {
  try {
    return { ...defaults, ...JSON.parse(storage.getItem(settingsName)) };
  } catch {
    return { ...defaults };
  }
}

export function saveSettings(storage, settings) {
  storage.setItem(settingsName, JSON.stringify(settings));
}

export const loadKey = (storage) => storage.getItem(keyName) ?? "";
export const saveKey = (storage, key) => storage.setItem(keyName, key);

/** The query of the native protocol; empty numbers are left to the server. */
export function streamQuery(settings, rate) {
  const query = new URLSearchParams({
    encoding: "pcm_s16le", sample_rate: rate, interim: settings.interim, words: settings.words,
  });
  for (const name of ["endpointing", "max_segment", "long_silence"]) {
    if (settings[name] !== "") query.set(name, settings[name]);
  }
  return query.toString();
}

/** Fills the fields of a form by their names, and calls `onChange(settings)` whenever somebody else does. */
export function bindSettings(form, settings, onChange) {
  const fields = [...form.elements].filter(({ name }) => name in settings);
  for (const field of fields) {
    if (field.type === "checkbox") field.checked = settings[field.name];
    else if (field.type === "radio") field.checked = field.value === settings[field.name];
    else field.value = settings[field.name];
    field.addEventListener("change", () => {
      if (!field.validity.valid) return;
      onChange({ ...settings, ...Object.fromEntries(fields.map((each) => [each.name, valueOf(fields, each)])) });
    });
  }
}

function valueOf(fields, field) {
  if (field.type === "checkbox") return field.checked;
  if (field.type === "radio") return fields.find(({ name, checked }) => name === field.name && checked).value;
  return field.value;
}
