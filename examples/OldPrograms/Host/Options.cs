using System;
using System.Collections.Generic;
using System.Globalization;

namespace OldPrograms.Host;

/// The few forms of options that the old performance programs take: -p 8080, --port 8080, --port=8080.
internal sealed class Options
{
    private readonly Dictionary<string, string> _values = new();

    public Options(string[] args)
    {
        for (int i = 0; i < args.Length; i++)
        {
            string name = args[i].TrimStart('-');
            int equals = name.IndexOf('=');
            if (equals >= 0) _values[name[..equals]] = name[(equals + 1)..];
            else if (i + 1 < args.Length) _values[name] = args[++i];
        }
    }

    public string Text(string name, string usual)
    {
        return _values.TryGetValue(name, out string value) || _values.TryGetValue(name[..1], out value) ? value : usual;
    }

    // Seconds are -z: -s is the size.
    public int Number(string name, int usual)
    {
        string value = name == "seconds" ? (_values.TryGetValue("seconds", out string s) || _values.TryGetValue("z", out s) ? s : null) : Text(name, null);
        return value == null ? usual : int.Parse(value, CultureInfo.InvariantCulture);
    }
}
