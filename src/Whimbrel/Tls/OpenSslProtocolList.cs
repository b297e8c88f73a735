using System.Runtime.InteropServices;
using System.Text;

namespace Whimbrel.Tls;

/// <summary>
/// Lists of application protocols in OpenSSL's format, in native memory that is never freed: a connection may use the
/// list of a context that was replaced long ago. Each different list exists once, so that reloading adds nothing. Any
/// thread.
/// </summary>
// Safe: a list is written once, before its pointer is published, and is never freed.
internal static unsafe class OpenSslProtocolList
{
    private static readonly Dictionary<string, nint> s_lists = [];

    /// <summary>Returns pairs of length and name, after the total length as an int.</summary>
    // Safe: written once before the pointer is published, with the length that it states, and never freed.
    internal static nint Of(IReadOnlyList<string> protocols)
    {
        byte[] wire = WireOf(protocols);
        string key = Convert.ToHexString(wire);
        lock (s_lists)
        {
            if (s_lists.TryGetValue(key, out nint known)) return known;
            byte* list = (byte*)NativeMemory.Alloc((nuint)(sizeof(int) + wire.Length));
            *(int*)list = wire.Length;
            wire.CopyTo(new Span<byte>(list + sizeof(int), wire.Length));
            s_lists.Add(key, (nint)list);
            return (nint)list;
        }
    }

    /// <summary>Returns the pairs only.</summary>
    internal static byte[] WireOf(IReadOnlyList<string> protocols)
    {
        var wire = new List<byte>();
        foreach (string protocol in protocols)
        {
            byte[] name = Encoding.ASCII.GetBytes(protocol);
            wire.Add((byte)name.Length);
            wire.AddRange(name);
        }

        return [.. wire];
    }
}
