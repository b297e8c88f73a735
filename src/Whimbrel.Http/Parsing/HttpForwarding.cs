using System.Text;

namespace Whimbrel.Http.Parsing;

/// <summary>Fields that a proxy forwards (RFC 9110, 7.6.1): neither hop-by-hop fields, nor fields for
/// framing.</summary>
internal static class HttpForwarding
{
    /// <param name="head">Head that was read.</param>
    /// <param name="index">Index of a field.</param>
    internal static bool GoesOn(HttpHead head, int index)
    {
        ReadOnlySpan<byte> name = head.NameAt(index);
        switch (head.Reader[index].Field)
        {
            case HttpField.Connection or HttpField.KeepAlive or HttpField.ProxyAuthenticate
                or HttpField.ProxyAuthorization:
            case HttpField.Te or HttpField.Trailer or HttpField.TransferEncoding or HttpField.ContentLength
                or HttpField.Upgrade:
            case HttpField.Other when Ascii.EqualsIgnoreCase(name, "Proxy-Connection"u8):
                return false;
        }

        for (int at = head.Reader.IndexOf(HttpField.Connection); at >= 0;
            at = head.Reader.IndexOf(HttpField.Connection, at + 1))
        {
            ReadOnlySpan<byte> list = head.ValueAt(at);
            while (HttpBytes.TryNextElement(ref list, out ReadOnlySpan<byte> named))
            {
                if (Ascii.EqualsIgnoreCase(named, name)) return false;
            }
        }

        return true;
    }
}
