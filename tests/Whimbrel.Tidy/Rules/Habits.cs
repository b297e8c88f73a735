using System.Text.RegularExpressions;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

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
        select file.At(access,
            $"{owner}.{member} in a test: wait for the event itself, or say '// tidy: waits because ...'");

    public static IEnumerable<Finding> FixedPorts(SourceFile file) =>
        from creation in file.All<ObjectCreationExpressionSyntax>()
        where creation.Type.ToString().Split('.')[^1] is "IPEndPoint" or "TcpListener"
        where creation.ArgumentList?.Arguments is [_, { Expression: LiteralExpressionSyntax port }]
            && port.Token.Value is int and not 0
        where !file.Excuses(file.LineOf(creation), "fixed port")
        select file.At(creation,
            $"{creation}: take port 0 and read back the bound port, or say '// tidy: fixed port because ...'");

    // A deterministic build replaces the folder by "/_/": a test that reads a file there would fail on the build
    // machine only.
    public static IEnumerable<Finding> CallerPaths(SourceFile file) =>
        from attribute in file.All<AttributeSyntax>()
        where attribute.Name.ToString().Split('.')[^1] is "CallerFilePath" or "CallerFilePathAttribute"
        select file.At(attribute, "[CallerFilePath] in a test: a build machine writes no folder there, look for "
            + "Whimbrel.slnx from AppContext.BaseDirectory");

    // The wall clock may jump: a timeout measured with it never ends, or ends immediately.
    public static IEnumerable<Finding> WallClocks(SourceFile file) =>
        from access in file.All<MemberAccessExpressionSyntax>()
        let owner = access.Expression.ToString().Split('.')[^1]
        let member = access.Name.Identifier.Text
        where ((owner is "DateTime" or "DateTimeOffset") && (member is "Now" or "UtcNow" or "Today"))
            || member is "GetUtcNow" or "GetLocalNow"
        where !file.Excuses(file.LineOf(access), "wall clock")
        select file.At(access, $"{owner}.{member} jumps when the clock is set: take the loop's time, or say '// tidy: "
            + $"wall clock because ...'");

    // Each unsafe block, member or type has a comment with the word "safe": in its own comment, up to six lines above
    // it, or at the head of the file. A type that is unsafe for all its members may leave the comments to them.
    public static IEnumerable<Finding> UnsafeClaims(SourceFile file)
    {
        var claims = ClaimLines(file);
        var firstType = file.All<BaseTypeDeclarationSyntax>().FirstOrDefault();
        if (firstType is not null && claims.Any(line => line <= file.LineOf(firstType))) yield break;

        foreach (var token in file.Root.DescendantTokens()
            .Where(t => t.IsKind(SyntaxKind.UnsafeKeyword) && !IsLayout(t.Parent!)))
        {
            var isClaimed = token.Parent!.AncestorsAndSelf()
                .Any(node => IsUnsafe(node) && IsClaimed(file, node, claims));
            if (!isClaimed)
                yield return new Finding(file.Path, file.LineOf(token.SpanStart),
                    "unsafe without a comment that says why it is safe");
        }
    }

    // A struct of fields only describes memory and does nothing with it.
    private static bool IsLayout(SyntaxNode node) =>
        node is StructDeclarationSyntax type && type.Members.All(m => m is FieldDeclarationSyntax);

    private static HashSet<int> ClaimLines(SourceFile file) =>
        [.. file.Root.DescendantTrivia()
            .Where(t => t.IsKind(SyntaxKind.SingleLineCommentTrivia) || t.IsKind(SyntaxKind.MultiLineCommentTrivia)
                || t.IsKind(SyntaxKind.SingleLineDocumentationCommentTrivia))
            .Where(t => SafeWord().IsMatch(t.ToFullString()))
            .SelectMany(t => Enumerable.Range(file.LineOf(t.SpanStart),
                1 + file.LineOf(t.Span.End) - file.LineOf(t.SpanStart)))];

    private static bool IsUnsafe(SyntaxNode node) =>
        node is UnsafeStatementSyntax
        || (node is MemberDeclarationSyntax member && member.Modifiers.Any(SyntaxKind.UnsafeKeyword));

    private static bool IsClaimed(SourceFile file, SyntaxNode node, HashSet<int> claims)
    {
        var line = file.LineOf(node);
        var from = Math.Min(line - CommentDistance, file.LineOf(node.FullSpan.Start));
        var to = node is TypeDeclarationSyntax ? file.LineOf(node.Span.End) : line + 1;
        return claims.Any(c => c >= from && c <= to);
    }

    [GeneratedRegex(@"\bsafe\b", RegexOptions.IgnoreCase)]
    private static partial Regex SafeWord();
}
