using System.Formats.Asn1;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;

namespace Whimbrel.Tls;

/// <summary>
/// One revocation list: its issuer, and the revoked serial numbers. It applies to certificates of that issuer only,
/// anywhere in a chain. The file is trusted: neither its signature nor its dates are checked. Any thread.
/// </summary>
internal sealed class RevocationList
{
    private const string Label = "X509 CRL";
    private const string DeltaIndicator = "2.5.29.27";
    private const string EntryOfOtherIssuer = "2.5.29.29";

    private static readonly Asn1Tag s_extensions = new(TagClass.ContextSpecific, 0, isConstructed: true);

    private readonly byte[] _issuer;
    private readonly HashSet<string> _serials = [];

    // RFC 5280, 5.1: version?, algorithm, issuer, thisUpdate, nextUpdate?, revoked certificates?, [0] extensions?
    private RevocationList(AsnReader list)
    {
        if (list.PeekTag() == Asn1Tag.Integer) list.ReadInteger();
        list.ReadSequence();
        _issuer = list.ReadEncodedValue().ToArray();
        list.ReadEncodedValue();
        if (list.HasData
            && list.PeekTag().TagValue is (int)UniversalTagNumber.UtcTime or (int)UniversalTagNumber.GeneralizedTime)
            list.ReadEncodedValue();
        if (list.HasData && list.PeekTag() == Asn1Tag.Sequence)
        {
            AsnReader revoked = list.ReadSequence();
            while (revoked.HasData) ReadEntry(revoked.ReadSequence());
        }

        if (!list.HasData) return;
        // A partial list would look like a complete one.
        if (Names(list.ReadSequence(s_extensions).ReadSequence(), DeltaIndicator))
            throw new FormatException("it is a delta list, which names changes only; give the complete list");
        list.ThrowIfNotEmpty();
    }

    /// <summary>Returns whether the list revokes this certificate.</summary>
    internal bool Revokes(X509Certificate2 certificate) =>
        _issuer.AsSpan().SequenceEqual(certificate.IssuerName.RawData)
        && _serials.Contains(certificate.SerialNumber.TrimStart('0'));

    /// <summary>
    /// Reads all lists of a file: PEM with any number of them, or consecutive DER. Throws CryptographicException if the
    /// file contains anything else, or no list.
    /// </summary>
    internal static List<RevocationList> ReadAll(string file)
    {
        byte[] bytes = File.ReadAllBytes(file);
        try
        {
            List<RevocationList> lists = [];
            // DER begins with a sequence, text never does.
            if (bytes is [0x30, ..]) ReadDer(bytes, lists);
            else ReadPem(Encoding.ASCII.GetString(bytes), lists);
            return lists;
        }
        catch (Exception e) when (e is AsnContentException or FormatException)
        {
            throw new CryptographicException($"{file} is no revocation list, or no whole one: {e.Message}", e);
        }
    }

    private static void ReadPem(string text, List<RevocationList> lists)
    {
        ReadOnlySpan<char> rest = text;
        while (PemEncoding.TryFind(rest, out PemFields fields))
        {
            if (rest[fields.Label] is not Label) throw new FormatException($"there is a {rest[fields.Label]} in it");
            ReadDer(Convert.FromBase64String(rest[fields.Base64Data].ToString()), lists);
            rest = rest[fields.Location.End..];
        }

        // A truncated or misspelt block would be skipped silently, and its list would be missing.
        if (rest.Contains("-----BEGIN", StringComparison.Ordinal))
            throw new FormatException("a block of PEM in it is broken");
        if (lists.Count == 0) throw new FormatException($"there is no {Label} in it");
    }

    private static void ReadDer(byte[] bytes, List<RevocationList> lists)
    {
        AsnReader reader = new(bytes, AsnEncodingRules.DER);
        while (reader.HasData) lists.Add(new RevocationList(reader.ReadSequence().ReadSequence()));
    }

    private void ReadEntry(AsnReader entry)
    {
        string serial = Convert.ToHexString(entry.ReadIntegerBytes().Span).TrimStart('0');
        entry.ReadEncodedValue();
        if (entry.HasData && Names(entry.ReadSequence(), EntryOfOtherIssuer))
            throw new FormatException(
                "it revokes certificates of other issuers (an indirect list), which is not supported");
        _serials.Add(serial);
    }

    private static bool Names(AsnReader extensions, string wanted)
    {
        bool found = false;
        while (extensions.HasData) found |= extensions.ReadSequence().ReadObjectIdentifier() == wanted;
        return found;
    }
}
