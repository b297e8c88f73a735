using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;
using Microsoft.CodeAnalysis;
using System.Text.RegularExpressions;

namespace Whimbrel.Tidy.Rules;

// Habits of tests and of unsafe code.
internal static partial class Habits
{
    private const int CommentDistance = 6;

    public static IEnumerable<Finding> Sleeps(SourceFile file) =>
        from access in file.All<MemberAccessExpressionSyntax>()
        let owner = access.Expression.ToString().Split('.')[^1]
        let member = access.Name.Identifier.Text
        where (owner, member) is ("Thread", "Sleep") or ("Task", "Delay")
        where !file.Excuses(file.LineOf(access), "waits")
        select file.At(access, $"{owner}.{member} in a test: wait for the event itself, or say '// tidy: waits because ...'");

    public static IEnumerable<Finding> FixedPorts(SourceFile file) =>
        from creation in file.All<ObjectCreationExpressionSyntax>()
        where creation.Type.ToString().Split('.')[^1] is "IPEndPoint" or "TcpListener"
        where creation.ArgumentList?.Arguments is [_, { Expression: LiteralExpressionSyntax port }] && port.Token.Value is int and not 0
        where !file.Excuses(file.LineOf(creation), "fixed port")
        select file.At(creation, $"{creation}: take port 0 and read back the bound port, or say '// tidy: fixed port because ...'");

    /// Each unsafe type, member or block has a comment with the word "safe" at the head of its file or close above it.
    public static IEnumerable<Finding> UnsafeClaims(SourceFile file)
    {
        var claims = file.Root.DescendantTrivia()
            .Where(t => t.IsKind(SyntaxKind.SingleLineCommentTrivia) || t.IsKind(SyntaxKind.MultiLineCommentTrivia) || t.IsKind(SyntaxKind.SingleLineDocumentationCommentTrivia))
            .Where(t => SafeWord().IsMatch(t.ToFullString()))
            .SelectMany(t => Enumerable.Range(file.LineOf(t.SpanStart), 1 + file.LineOf(t.Span.End) - file.LineOf(t.SpanStart)))
            .ToHashSet();
        var firstType = file.All<BaseTypeDeclarationSyntax>().FirstOrDefault();
        var head = firstType is null ? 0 : file.LineOf(firstType);
        if (claims.Any(line => line <= head)) yield break;

        foreach (var token in file.Root.DescendantTokens().Where(t => t.IsKind(SyntaxKind.UnsafeKeyword)))
        {
            var line = file.LineOf(token.SpanStart);
            var isInsideClaimed = token.Parent!.Ancestors().OfType<MemberDeclarationSyntax>()
                .Any(a => a.Modifiers.Any(SyntaxKind.UnsafeKeyword) && !a.Modifiers.Contains(token) && claims.Any(c => IsNear(c, file.LineOf(a))));
            if (!isInsideClaimed && !claims.Any(c => IsNear(c, line)))
                yield return new Finding(file.Path, line, "unsafe without a comment that says why it is safe");
        }
    }

    private static bool IsNear(int comment, int line) => comment <= line + 1 && comment >= line - CommentDistance;

    [GeneratedRegex(@"\bsafe\b", RegexOptions.IgnoreCase)]
    private static partial Regex SafeWord();
}
