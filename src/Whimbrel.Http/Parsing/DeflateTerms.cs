using System.Text;

namespace Whimbrel.Http.Parsing;

/// <summary>Parameters of permessage-deflate (RFC 7692, 7.1): an offer, an agreement, or the settings of one
/// end.</summary>
internal readonly record struct DeflateTerms
{
    internal const int LeastBits = 8;
    internal const int MostBits = 15;

    /// <summary>Smallest window that zlib writes. It reads smaller ones.</summary>
    internal const int LeastWrittenBits = 9;

    /// <summary>Largest number of bytes written by <see cref="Write"/>.</summary>
    internal const int MostText = 128;

    public DeflateTerms()
    {
    }

    /// <summary>Whether the server compresses each message without context.</summary>
    internal bool ServerForgets { get; init; }

    /// <summary>Whether the client compresses each message without context.</summary>
    internal bool ClientForgets { get; init; }

    /// <summary>Window of the server, as a power of two.</summary>
    internal int ServerBits { get; init; } = MostBits;

    /// <summary>Window of the client, as a power of two.</summary>
    internal int ClientBits { get; init; } = MostBits;

    /// <summary>Whether an offer allows the server to limit the client's window.</summary>
    internal bool OffersClientBits { get; init; }

    private static ReadOnlySpan<byte> Name => "permessage-deflate"u8;

    // ------------------------------------------------------------------ agreeing

    /// <summary>Reads a field of offers as a server, and takes the first acceptable one.</summary>
    /// <param name="field">Value of Sec-WebSocket-Extensions.</param>
    /// <param name="wishes">Settings of the server.</param>
    /// <param name="terms">Agreement; null for none.</param>
    /// <returns>False if the field is malformed.</returns>
    internal static bool TryAgree(ReadOnlySpan<byte> field, in DeflateTerms wishes, out DeflateTerms? terms)
    {
        terms = null;
        while (!field.IsEmpty)
        {
            if (!TryReadExtension(ref field, out ReadOnlySpan<byte> name, out Parameters parameters)) return false;
            if (terms is not null || !Ascii.EqualsIgnoreCase(name, Name) || !parameters.IsKnown) continue;
            // The client's window may be offered without a number, the server's may not.
            if (parameters.ServerBits == Parameters.NoNumber || parameters.ServerBits is > 0 and < LeastWrittenBits)
                continue;
            terms = new DeflateTerms
            {
                ServerForgets = parameters.ServerForgets || wishes.ServerForgets,
                ClientForgets = parameters.ClientForgets || wishes.ClientForgets,
                ServerBits = Math.Min(wishes.ServerBits, parameters.ServerBits > 0 ? parameters.ServerBits : MostBits),
                ClientBits = parameters.ClientBits == 0
                    ? MostBits
                    : Math.Min(wishes.ClientBits, parameters.ClientBits > 0 ? parameters.ClientBits : MostBits),
            };
        }

        return true;
    }

    /// <summary>Reads the server's agreement as a client.</summary>
    /// <param name="field">Value of the only Sec-WebSocket-Extensions.</param>
    /// <param name="offer">Offer of the client.</param>
    /// <param name="terms">Agreement; null for none.</param>
    /// <returns>False if the field is malformed, or was not offered.</returns>
    internal static bool TryAccept(ReadOnlySpan<byte> field, in DeflateTerms offer, out DeflateTerms? terms)
    {
        terms = null;
        while (!field.IsEmpty)
        {
            if (!TryReadExtension(ref field, out ReadOnlySpan<byte> name, out Parameters parameters)) return false;
            if (terms is not null || !Ascii.EqualsIgnoreCase(name, Name) || !parameters.IsKnown) return false;
            if (parameters.ServerBits == Parameters.NoNumber || parameters.ClientBits == Parameters.NoNumber)
                return false;
            if (parameters.ClientBits > 0 && !offer.OffersClientBits) return false;
            if (parameters.ServerBits > offer.ServerBits || parameters.ClientBits > offer.ClientBits) return false;
            if (offer.ServerForgets && !parameters.ServerForgets) return false;
            if (offer.ServerBits < MostBits && parameters.ServerBits == 0) return false;
            terms = new DeflateTerms
            {
                ServerForgets = parameters.ServerForgets,
                ClientForgets = parameters.ClientForgets || offer.ClientForgets,
                ServerBits = parameters.ServerBits > 0 ? parameters.ServerBits : MostBits,
                ClientBits = parameters.ClientBits > 0 ? parameters.ClientBits : offer.ClientBits,
            };
        }

        return true;
    }

    /// <summary>Writes them as an offer or an agreement.</summary>
    /// <param name="target">Buffer of at least <see cref="MostText"/> bytes.</param>
    /// <returns>Number of bytes written.</returns>
    internal int Write(Span<byte> target)
    {
        int at = 0;
        Append(target, ref at, Name);
        if (ServerForgets) Append(target, ref at, "; server_no_context_takeover"u8);
        if (ClientForgets) Append(target, ref at, "; client_no_context_takeover"u8);
        if (ServerBits < MostBits) AppendBits(target, ref at, "; server_max_window_bits"u8, ServerBits);
        if (ClientBits < MostBits) AppendBits(target, ref at, "; client_max_window_bits"u8, ClientBits);
        else if (OffersClientBits) Append(target, ref at, "; client_max_window_bits"u8);
        return at;
    }

    private static void AppendBits(Span<byte> target, ref int at, ReadOnlySpan<byte> name, int bits)
    {
        Append(target, ref at, name);
        target[at++] = (byte)'=';
        if (bits >= 10) target[at++] = (byte)'1';
        target[at++] = (byte)('0' + bits % 10);
    }

    private static void Append(Span<byte> target, ref int at, ReadOnlySpan<byte> text)
    {
        text.CopyTo(target[at..]);
        at += text.Length;
    }

    // ------------------------------------------------------------------ reading

    private struct Parameters
    {
        /// <summary>Value for a window without a number.</summary>
        internal const int NoNumber = -1;

        internal bool ServerForgets;
        internal bool ClientForgets;
        internal int ServerBits; // 0 if it is not named
        internal int ClientBits;
        private bool _isStrange;

        /// <summary>Whether each parameter is one of the RFC, occurs once, and has an allowed value.</summary>
        internal readonly bool IsKnown => !_isStrange;

        internal void Add(ReadOnlySpan<byte> name, ReadOnlySpan<byte> value, bool hasValue)
        {
            if (Ascii.EqualsIgnoreCase(name, "server_no_context_takeover"u8)) AddFlag(ref ServerForgets, hasValue);
            else if (Ascii.EqualsIgnoreCase(name, "client_no_context_takeover"u8)) AddFlag(ref ClientForgets, hasValue);
            else if (Ascii.EqualsIgnoreCase(name, "server_max_window_bits"u8)) AddBits(ref ServerBits, value, hasValue);
            else if (Ascii.EqualsIgnoreCase(name, "client_max_window_bits"u8)) AddBits(ref ClientBits, value, hasValue);
            else _isStrange = true;
        }

        private void AddFlag(ref bool flag, bool hasValue)
        {
            _isStrange |= flag || hasValue;
            flag = true;
        }

        private void AddBits(ref int bits, ReadOnlySpan<byte> value, bool hasValue)
        {
            _isStrange |= bits != 0;
            bits = hasValue ? BitsOf(value) : NoNumber;
            _isStrange |= bits == 0;
        }

        // 8 to 15 without a leading zero; 0 for an invalid value.
        private static int BitsOf(ReadOnlySpan<byte> value)
        {
            if (value.Length == 1 && value[0] is (byte)'8' or (byte)'9') return value[0] - '0';
            return value.Length == 2 && value[0] == '1' && value[1] is >= (byte)'0' and <= (byte)'5'
                ? 10 + value[1] - '0'
                : 0;
        }
    }

    // token *( ";" token [ "=" ( token | quoted token ) ] ), followed by a comma.
    private static bool TryReadExtension(ref ReadOnlySpan<byte> field, out ReadOnlySpan<byte> name,
        out Parameters parameters)
    {
        parameters = default;
        if (!TryReadToken(ref field, out name)) return false;
        while (TrySkip(ref field, (byte)';'))
        {
            if (!TryReadToken(ref field, out ReadOnlySpan<byte> parameter)) return false;
            bool hasValue = TrySkip(ref field, (byte)'=');
            if (!TryReadValue(ref field, hasValue, out ReadOnlySpan<byte> value)) return false;
            parameters.Add(parameter, value, hasValue);
        }

        if (field.IsEmpty) return true;
        // A list does not end in a comma.
        return TrySkip(ref field, (byte)',') && !field.IsEmpty;
    }

    private static bool TryReadValue(ref ReadOnlySpan<byte> field, bool hasValue, out ReadOnlySpan<byte> value)
    {
        value = default;
        if (!hasValue) return true;
        if (field.IsEmpty || field[0] != '"') return TryReadToken(ref field, out value);
        field = field[1..];
        int length = field.IndexOf((byte)'"');
        value = length < 0 ? default : field[..length];
        if (!HttpBytes.IsToken(value)) return false; // the value of a parameter is a token, also if quoted
        field = SkipSpaces(field[(length + 1)..]);
        return true;
    }

    private static bool TryReadToken(ref ReadOnlySpan<byte> field, out ReadOnlySpan<byte> token)
    {
        int length = field.IndexOfAnyExcept(HttpBytes.Token);
        if (length < 0) length = field.Length;
        token = field[..length];
        field = SkipSpaces(field[length..]);
        return length > 0;
    }

    private static bool TrySkip(ref ReadOnlySpan<byte> field, byte what)
    {
        if (field.IsEmpty || field[0] != what) return false;
        field = SkipSpaces(field[1..]);
        return true;
    }

    private static ReadOnlySpan<byte> SkipSpaces(ReadOnlySpan<byte> text) => text.TrimStart(" \t"u8);
}
