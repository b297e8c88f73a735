using System.CommandLine;
using System.CommandLine.Parsing;
using Whimbrel.Http;

namespace Whimbrel.Tool;

/// <summary>Arguments of <c>whimbrel get</c>.</summary>
internal static class GetCommandLine
{
    private const int DefaultRedirects = 10;
    private const string AnyUrl = "http://localhost/";

    private static readonly Argument<string?> s_url = new("URL")
    {
        Arity = ArgumentArity.ExactlyOne,
        Description = "http://HOST:PORT/PATH, or https://; without a scheme it is http."
    };
    private static readonly Option<bool> s_head =
        new("--head") { Description = "Send HEAD, and print the head of the answer." };
    private static readonly Option<string?> s_post = BodyOption("--post", "POST");
    private static readonly Option<string?> s_put = BodyOption("--put", "PUT");
    private static readonly Option<string?> s_method = CommandLine.Value<string?>("--method",
        "NAME", "Method other than GET, such as DELETE.", "a method such as DELETE",
        static text => IsMethod(text) ? text : null);
    private static readonly Option<string[]?> s_header = new("--header", "-H")
    {
        Description = "Header field to send; repeatable.",
        HelpName = "NAME: VALUE",
        Arity = ArgumentArity.OneOrMore,
        AllowMultipleArgumentsPerToken = false,
        CustomParser = static argument =>
        {
            foreach (Token token in argument.Tokens)
            {
                if (MistakeIn(token.Value) is { } mistake) argument.AddError($"--header: {mistake}");
            }

            return [.. argument.Tokens.Select(static t => t.Value)];
        },
    };
    private static readonly Option<string?> s_output = new("--output", "-o")
    {
        Description = "Write the body to this file instead of stdout. An "
            + "answer with a status of 400 or more does not change the file.",
        HelpName = "FILE"
    };
    private static readonly Option<int?> s_redirects = CommandLine.Value("--redirects", "N",
        $"Number of redirects to follow; never one from https to http. Default {DefaultRedirects}.",
        "a number from 0 to 100", static text => CommandLine.Number(text, 0, 100));
    private static readonly Option<bool> s_compressed =
        new("--compressed") { Description = "Request gzip, br or deflate, and decompress the answer." };
    private static readonly Option<double?> s_timeout = CommandLine.Value<double?>("--timeout",
        "SECONDS", "Give up after this time. Default: none; each step has its own limit.",
        "seconds, for example 10 or 0.5, or a time such as 2m30s",
        static text => CommandLine.Seconds(text, 0.01, 600_000));
    private static readonly Option<bool> s_json = new("--json")
    {
        Description = "Print one JSON object: status, bytes, and the times of connect, "
            + "TLS, first byte and total, in milliseconds. The body goes only to --output."
    };

    internal const string Usage = "whimbrel get [--head | --post FILE | --put FILE | --method NAME] [--header 'NAME: "
        + "VALUE'] [--output FILE] [--json] [--ca FILE | --pin HASH] URL (whimbrel get --help explains)";

    internal static Command Get()
    {
        Command command = new("get", "Sends an HTTP request, and prints the answer. Exit code 0: status below 400; 1: "
            + "other status, or no answer; 2: wrong arguments.")
        {
            s_url, s_head, s_post, s_put, s_method, s_header, s_output, s_json, s_compressed, s_redirects, s_timeout,
            CommandLine.Unix, CommandLine.Engine,
        };
        foreach (Option option in CommandLine.ClientTls) command.Options.Add(option);
        command.Validators.Add(CommandLine.OneCertificate);
        command.Validators.Add(CommandLine.OneTrust);
        command.Validators.Add(static result =>
        {
            if (((Option[])[s_head, s_post, s_put, s_method]).Count(o => CommandLine.IsGiven(result, o)) > 1)
                result.AddError("Give only one of --head, --post, --put and --method.");
            if (result.GetResult(s_url) is not { Tokens: [{ Value: var text }] }) result.AddError("A URL is missing.");
            else if (Read(text) is not { } url)
                result.AddError($"'{text}' is not an HTTP URL: use http://HOST:PORT/PATH or https://HOST/PATH.");
            else if (url.Scheme == Uri.UriSchemeHttp && CommandLine.ClientTls.Any(o => CommandLine.IsGiven(result, o)))
                result.AddError($"{url.Scheme}:// has no TLS: use https://.");
        });
        command.SetAction(static async parsed =>
        {
            Uri url = Read(parsed.GetValue(s_url)!)!;
            if (!CommandLine.TryReadTls(parsed, url.Scheme == Uri.UriSchemeHttps, out TlsArguments? tls))
                return ExitCode.Failed;
            return await GetCommand.RunAsync(SettingsOf(parsed, url,
                tls is null ? null : tls with { Protocols = ["http/1.1"] }));
        });
        return command;
    }

    private static GetSettings SettingsOf(ParseResult parsed, Uri url, TlsArguments? tls)
    {
        string? post = parsed.GetValue(s_post), put = parsed.GetValue(s_put);
        string method = parsed.GetValue(s_method) ?? (parsed.GetValue(s_head) ? "HEAD" : post is not null ? "POST"
            : put is not null ? "PUT" : "GET");
        return new GetSettings(method, url, parsed.GetValue(CommandLine.Engine) ?? EngineKind.Auto, tls)
        {
            Fields = [.. (parsed.GetValue(s_header) ?? []).Select(Split)],
            BodyFile = post ?? put,
            OutputFile = parsed.GetValue(s_output) is { } file && file != "-" ? file : null,
            Place = parsed.GetValue(CommandLine.Unix) is { } unix ? NetworkAddress.Parse(unix).ToEndPoint() : null,
            Redirects = parsed.GetValue(s_redirects) ?? DefaultRedirects,
            Compressed = parsed.GetValue(s_compressed),
            Timeout = parsed.GetValue(s_timeout) is { } seconds ? TimeSpan.FromSeconds(seconds) : null,
            AsJson = parsed.GetValue(s_json),
        };
    }

    private static Option<string?> BodyOption(string name, string method) =>
        CommandLine.Value<string?>(name, "FILE", $"{method} the bytes of this file; - is stdin.",
            "a file, or - for stdin", static text => text.Length > 0 ? text : null);

    private static Uri? Read(string text)
    {
        if (!text.Contains("://", StringComparison.Ordinal)) text = "http://" + text;
        return Uri.TryCreate(text, UriKind.Absolute, out Uri? url)
            && MistakeIn(() => new HttpClientRequest("GET", url)) is null ? url : null;
    }

    private static bool IsMethod(string text) => MistakeIn(() => new HttpClientRequest(text, new Uri(AnyUrl))) is null;

    private static KeyValuePair<string, string> Split(string field)
    {
        int colon = field.IndexOf(':', StringComparison.Ordinal);
        return colon < 0 ? new(field, "") : new(field[..colon], field[(colon + 1)..].Trim(' ', '\t'));
    }

    private static string? MistakeIn(string field)
    {
        if (!field.Contains(':', StringComparison.Ordinal)) return $"'{field}' has no colon: a field is 'NAME: VALUE'.";
        (string name, string value) = Split(field);
        return MistakeIn(() =>
        {
            HttpClientRequest request = new("GET", new Uri(AnyUrl));
            request.Add(name, value);
            return request;
        });
    }

    // The library validates the request; only the first line of its message is used.
    private static string? MistakeIn(Func<HttpClientRequest> make)
    {
        try
        {
            _ = make();
            return null;
        }
        catch (ArgumentException e)
        {
            return e.Message.Split(" (Parameter", 2)[0];
        }
    }
}
