using System.Globalization;

namespace Whimbrel;

/// <summary>
/// TCP ports of services by name: from the system's list, which is read once, or from a short built-in list. .NET has
/// no such lookup, and that of the C library may wait for the network, depending on the system's configuration. Any
/// thread.
/// </summary>
internal static class ServiceNames
{
    private static readonly Lazy<Dictionary<string, int>> s_ports = new(ReadSystem);

    /// <summary>Returns the port, or null if neither list has the name. Case-insensitive.</summary>
    internal static int? PortOf(string service) => s_ports.Value.TryGetValue(service, out int port) ? port : null;

    private static Dictionary<string, int> ReadSystem()
    {
        foreach (string path in (string[])["/etc/services",
            Path.Combine(Environment.SystemDirectory, "drivers", "etc", "services")])
        {
            try
            {
                if (File.Exists(path)) return Read(File.ReadLines(path));
            }
            catch (Exception e) when (e is IOException or UnauthorizedAccessException)
            {
                // The file is not readable for this process; the built-in list is used.
            }
        }

        return Read([]);
    }

    /// <summary>
    /// Parses lines of the form "name port/tcp alias alias # comment". The first entry of a name has precedence; the
    /// built-in list comes last.
    /// </summary>
    internal static Dictionary<string, int> Read(IEnumerable<string> lines)
    {
        Dictionary<string, int> ports = new(StringComparer.OrdinalIgnoreCase);
        foreach (string line in lines)
        {
            int comment = line.IndexOf('#', StringComparison.Ordinal);
            string[] words = (comment < 0 ? line : line[..comment]).Split((char[]?)null,
                StringSplitOptions.RemoveEmptyEntries);
            if (words.Length < 2 || words[1].Split('/') is not [var number, "tcp"]) continue;
            if (!ushort.TryParse(number, NumberStyles.None, CultureInfo.InvariantCulture, out ushort port) || port == 0)
                continue;
            ports.TryAdd(words[0], port);
            for (int i = 2; i < words.Length; i++) ports.TryAdd(words[i], port);
        }

        foreach ((string name, int port) in s_known) ports.TryAdd(name, port);
        return ports;
    }

    // For systems without a list, as in many containers.
    private static readonly (string Name, int Port)[] s_known =
    [
        ("echo", 7), ("discard", 9), ("ftp", 21), ("ssh", 22), ("telnet", 23), ("smtp", 25), ("domain", 53),
        ("http", 80), ("pop3", 110), ("imap2", 143), ("imap", 143),
        ("ldap", 389), ("https", 443), ("submissions", 465), ("submission", 587), ("ldaps", 636), ("imaps", 993),
        ("pop3s", 995), ("mysql", 3306), ("postgresql", 5432),
        ("amqps", 5671), ("amqp", 5672), ("redis", 6379), ("http-alt", 8080), ("mqtt", 1883), ("secure-mqtt", 8883),
    ];
}
