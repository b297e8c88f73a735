using System.Text;

namespace Whimbrel.Http;

// Response that replaces one that was not sent.
internal sealed partial class ServerAnswer
{
    internal int FieldBytes => Pieces.FieldBytes;

    internal byte[] FirstFields(int length) => Pieces.Fields.AsSpan(0, length).ToArray();

    /// <summary>Adds the first fields of the previous response.</summary>
    internal void AddAgain(ReadOnlySpan<byte> fields)
    {
        AddLines(fields);
        while (!fields.IsEmpty)
        {
            if (fields.Length > 13 && Ascii.EqualsIgnoreCase(fields[..13], "Content-Type:"u8)) _hasContentType = true;
            fields = fields[(fields.IndexOf((byte)'\n') + 1)..];
        }
    }
}
